"""The current names of a request's tables, which may have been renamed or dropped since the request."""

from __future__ import annotations

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import BrokenTable, LakewardenError, TableNotFound
from lakewarden.lifecycle.ground import Reader
from lakewarden.records.erasure import ErasureRequest


def tables_of(request: ErasureRequest) -> list[tuple[str, str]]:
    """The tables of a request: their names at registration, and their uuids."""
    return list(dict.fromkeys((key.table, key.uuid) for key in request.keys))


def find_table(lake: Reader, table: str, uuid: str) -> TableName | None:
    """The current name of a table with this uuid in its lake; none only if it is certainly gone.

    If it is not found but some table cannot be read, that is an error, because that table may be the one.
    """
    if lake.tables.uuid(table) == uuid:
        return lake.tables.name(table)
    names = lake.tables.names(lake.tables.name(table).lake)
    read = list(lake.tables.read_all(names, lambda name: (name, _uuid_or_why(lake, name))))
    found = next((name for name, what in read if what == uuid), None)
    unread = [(name, what) for name, what in read if isinstance(what, LakewardenError)]
    if found is None and unread:
        name, error = unread[0]
        raise BrokenTable(
            f"{table} was renamed or dropped; which one is unknown while {name} cannot be read: {error.message}",
            error.hint or "Fix that table, or drop it.",
        )
    return found


def current_name(lake: Reader, asked: str, uuid: str) -> str:
    """The current name of a table, or the given one if it is not found: planning then reports the problem."""
    try:
        return str(find_table(lake, asked, uuid) or asked)
    except LakewardenError:
        return asked


def _uuid_or_why(lake: Reader, table: TableName) -> str | LakewardenError | None:
    """The uuid of a table, or why it cannot be read; none if it no longer exists."""
    try:
        return str(lake.tables.load(table).metadata.table_uuid)
    except TableNotFound:
        return None
    except LakewardenError as error:
        return error
