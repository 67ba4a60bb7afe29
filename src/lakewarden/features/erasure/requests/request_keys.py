"""The key columns of a request, and other tables that may have to be covered too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.catalog.snapshots import ancestors, operation_of
from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import BadValue, LakewardenError, NotFound, did_you_mean
from lakewarden.features.erasure.requests.asked_values import names_of
from lakewarden.features.erasure.requests.view_set_instances import Instances
from lakewarden.features.viewset.definition import INSTANCE
from lakewarden.lifecycle.ground import Reader
from lakewarden.records.erasure import ErasureRequest, KeyAsked

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


def keys_of(lake: Reader, table: str | None, key: str | None, subject: str | None) -> tuple[KeyAsked, ...]:
    """The key column of one table, or the keys that the configuration names for a subject."""
    if subject is not None:
        if table is not None or key is not None:
            raise BadValue("--subject excludes TABLE and --key", "Remove TABLE and --key: the subject defines them.")
        subjects = lake.settings.subjects
        if subject not in subjects:
            known = did_you_mean(subject, subjects, f"Configured: {', '.join(subjects) or 'none'}.")
            raise NotFound(f"no subject {subject} in the configuration", known)
        return tuple(key for name, path in subjects[subject].items() for key in _keys(lake, name, path))
    if table is None:
        raise BadValue("no table was given", "lakewarden erasure request TABLE --key COLUMN, or --subject NAME")
    return _keys(lake, table, key or _only_declared(lake, table))


def fields_of(lake: Reader, uuid: str, requests: Sequence[str]) -> list[int]:
    """The field ids of the requests' key columns in a table."""
    keys = [key for request in lake.state.erasure.many(requests) for key in request.keys]
    return sorted({key.field_id for key in keys if key.uuid == uuid})


def namesakes(keys: Sequence[KeyAsked], key: KeyAsked) -> list[KeyAsked]:
    """The keys with the same path in the same table: the column, and former ones of its name."""
    return [each for each in keys if (each.uuid, each.path) == (key.uuid, key.path)]


def former(keys: Sequence[KeyAsked]) -> list[str]:
    """Notes on former columns that a request covers besides those that have their names now."""
    first = {(key.uuid, key.path): key for key in reversed(keys)}
    again = (key for key in keys if key is not first[key.uuid, key.path])
    return [
        f"{key.table}: a former column {key.path} of type {key.kind} is covered too: it was dropped and added again"
        for key in again
    ]


def replaced(metadata: TableMetadata, requests: Iterable[ErasureRequest]) -> list[str]:
    """Notes on key columns that are other columns now than those that requests cover."""
    uuid, found = str(metadata.table_uuid), dict[str, str]()
    for request in requests:
        keys = [key for key in request.keys if key.uuid == uuid]
        covered = {key.field_id for key in keys}
        for key in keys:
            now = _field_of(metadata, key.path)
            if now is not None and now not in covered:
                found[f"{request.id} {key.path}"] = (
                    f"{key.table}: {key.path} is another column now than the one that request {request.id} covers: "
                    "register the values again to cover it too"
                )
    return list(found.values())


def lost_keys(table: Table, requests: Iterable[ErasureRequest]) -> list[str]:
    """Notes on key columns that were dropped after a request, if others rewrote rows on main without them.

    Nothing in such files shows any longer which rows the request covers.
    """
    metadata = table.metadata
    line = set(ancestors(table, metadata.current_snapshot_id))
    rewrites = [each for each in metadata.snapshots if each.snapshot_id in line and _is_rewrite_of_others(each)]
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    oldest = min((each.timestamp_ms for each in metadata.snapshots if each.snapshot_id in line), default=0)
    found: list[str] = []
    for request in requests:
        made = request.created_at.timestamp() * 1000
        for key in [key for key in request.keys if key.uuid == str(metadata.table_uuid)]:
            later = (schemas.get(each.schema_id or 0) for each in rewrites if each.timestamp_ms >= made)
            if oldest > made and metadata.schema().find_column_name(key.field_id) is None:
                found.append(
                    f"{key.table}: not known whether others rewrote rows without {key.path}, which was dropped after "
                    f"request {request.id} was made: versions since then have expired"
                )
            elif any(schema is not None and schema.find_column_name(key.field_id) is None for schema in later):
                found.append(
                    f"{key.table}: not covered: rows that others rewrote without {key.path}, which was dropped after "
                    f"request {request.id} was made. Nothing in them shows whom they are about"
                )
    return found


def _is_rewrite_of_others(snapshot: Snapshot) -> bool:
    kind = snapshot.summary.operation if snapshot.summary else None
    return kind is not None and kind.value in ("overwrite", "replace") and not operation_of(snapshot)


def _field_of(metadata: TableMetadata, path: str) -> int | None:
    try:
        return metadata.schema().find_field(path).field_id
    except ValueError:
        return None


def uncovered(lake: Reader, keys: tuple[KeyAsked, ...]) -> list[str]:
    """Notes on tables that are not covered: with a column that has the name of a key, or instances that may be values.

    Only a request for the column with the instances itself covers these, if they were taken from several columns.
    """
    paths = {key.path.split(".")[-1] for key in keys}
    covered, by_instance = {key.uuid for key in keys}, {key.uuid for key in keys if key.path == INSTANCE}
    asked = names_of(lake, keys)

    def look(name: TableName) -> str:
        try:
            table = lake.tables.load(name)
            metadata, instances = table.metadata, Instances.of(lake, name, table)
        except LakewardenError:
            return ""
        is_asked = str(metadata.table_uuid) in by_instance
        if instances is not None and not is_asked and (note := instances.not_covered(asked)):
            return note
        if str(metadata.table_uuid) in covered:
            return ""
        alike = sorted(path for path in metadata.schema().column_names if path.split(".")[-1] in paths)
        return f"{name} also has {', '.join(alike)}, but is not covered by this request" if alike else ""

    try:
        names = lake.tables.names()
    except LakewardenError as error:
        return [f"other tables could not be checked for such a column: {error.message}"]
    return list(filter(None, lake.tables.read_all(names, look)))


def grace_of(lake: Reader, keys: Iterable[KeyAsked]) -> timedelta:
    """The longest grace period of the keys' tables."""
    names = [lake.tables.name(key.table) for key in keys]
    return max(lake.settings.erasure(name.lake, name.within_lake).grace for name in names)


def _keys(lake: Reader, table: str, path: str) -> tuple[KeyAsked, ...]:
    name = lake.tables.name(table)
    metadata = lake.tables.load(name).metadata
    found = find_keys(metadata, path, str(name))
    return tuple(KeyAsked(str(name), str(metadata.table_uuid), key.path, key.field_id, key.kind) for key in found)


def _only_declared(lake: Reader, table: str) -> str:
    """The key column that the configuration names for a table; an error unless it names exactly one."""
    name = lake.tables.name(table)
    declared = lake.settings.erasure(name.lake, name.within_lake).keys
    if len(declared) != 1:
        raise BadValue(f"the key column of {name} is not configured", "Add --key COLUMN.")
    return declared[0]
