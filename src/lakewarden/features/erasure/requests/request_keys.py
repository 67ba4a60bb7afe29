"""Which key columns of which tables a request is about, and which other tables look as if they should be among them."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.rows.keys import find_key
from lakewarden.errors import BadValue, LakewardenError, NotFound, did_you_mean
from lakewarden.lifecycle.ground import Reader
from lakewarden.records.erasure import KeyAsked


def keys_of(lake: Reader, table: str | None, key: str | None, subject: str | None) -> tuple[KeyAsked, ...]:
    """The key columns that are meant: of one table, or those that the configuration names for a subject."""
    if subject is not None:
        if table is not None or key is not None:
            raise BadValue("a subject names its tables and keys itself", "Leave TABLE and --key out.")
        subjects = lake.settings.subjects
        if subject not in subjects:
            known = did_you_mean(subject, subjects, f"Configured: {', '.join(subjects) or 'none'}.")
            raise NotFound(f"no subject {subject} in the configuration", known)
        return tuple(_key(lake, name, path) for name, path in subjects[subject].items())
    if table is None:
        raise BadValue("nothing says whose rows", "lakewarden erasure request TABLE --key COLUMN, or --subject NAME")
    return (_key(lake, table, key or _only_declared(lake, table)),)


def fields_of(lake: Reader, uuid: str, requests: Sequence[str]) -> list[int]:
    """The columns of a table that requests are about, by field id."""
    keys = [key for request in lake.state.erasure.many(requests) for key in request.keys]
    return sorted({key.field_id for key in keys if key.uuid == uuid})


def uncovered(lake: Reader, keys: tuple[KeyAsked, ...]) -> list[str]:
    """Tables that have a column of the same name as one of the keys, and are not among those that are meant."""
    paths = {key.path.split(".")[-1] for key in keys}
    covered = {key.uuid for key in keys}

    def look(name: TableName) -> str:
        try:
            metadata = lake.tables.load(name).metadata
        except LakewardenError:
            return ""
        if str(metadata.table_uuid) in covered:
            return ""
        alike = sorted(path for path in metadata.schema().column_names if path.split(".")[-1] in paths)
        return f"{name} has {', '.join(alike)} too, and is not covered by this request" if alike else ""

    try:
        names = lake.tables.names()
    except LakewardenError as error:
        return [f"whether other tables have such a column is not known: {error.message}"]
    return [told for told in lake.tables.read_all(names, look) if told]


def _key(lake: Reader, table: str, path: str) -> KeyAsked:
    name = lake.tables.name(table)
    metadata = lake.tables.load(name).metadata
    key = find_key(metadata, path, str(name))
    return KeyAsked(str(name), str(metadata.table_uuid), key.path, key.field_id, key.kind)


def _only_declared(lake: Reader, table: str) -> str:
    """The key column that the configuration names for a table, where it names one."""
    name = lake.tables.name(table)
    declared = lake.settings.erasure(name.lake, name.within_lake).keys
    if len(declared) != 1:
        raise BadValue(f"nothing says which column of {name} is the key", "Say --key COLUMN.")
    return declared[0]
