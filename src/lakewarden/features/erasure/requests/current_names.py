"""Tables that requests are about, by the name that each has now: some are renamed or dropped after the request."""

from __future__ import annotations

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import BrokenTable, LakewardenError, TableNotFound
from lakewarden.lifecycle.ground import Reader
from lakewarden.records.erasure import ErasureRequest


def tables_of(request: ErasureRequest) -> list[tuple[str, str]]:
    """The tables that a request is about, by the name they were asked for and uuid."""
    return list(dict.fromkeys((key.table, key.uuid) for key in request.keys))


def find_table(lake: Reader, table: str, uuid: str) -> TableName | None:
    """The name that a table has now: the one it had when it was asked for, or another one in its lake.

    None only where it is gone for sure: a table that cannot be read may be the one.
    """
    if lake.tables.uuid(table) == uuid:
        return lake.tables.name(table)
    names = lake.tables.names(lake.tables.name(table).lake)
    read = list(lake.tables.read_all(names, lambda name: (name, _uuid_or_why(lake, name))))
    found = next((name for name, what in read if what == uuid), None)
    unread = [(name, what) for name, what in read if isinstance(what, LakewardenError)]
    if found is None and unread:
        name, error = unread[0]
        why = f"{name} cannot be read: {error.message}"
        raise BrokenTable(
            f"{table} has another name now or is gone, which cannot be told while {why}",
            error.hint or "Mend that table, or drop it.",
        )
    return found


def current_name(lake: Reader, asked: str, uuid: str) -> str:
    """What a table is called now. Of one that is not found, or cannot be looked for, planning says so."""
    try:
        return str(find_table(lake, asked, uuid) or asked)
    except LakewardenError:
        return asked


def _uuid_or_why(lake: Reader, table: TableName) -> str | LakewardenError | None:
    """Which table has this name, or why that cannot be told; nothing where there is none any more."""
    try:
        return str(lake.tables.load(table).metadata.table_uuid)
    except TableNotFound:
        return None
    except LakewardenError as error:
        return error
