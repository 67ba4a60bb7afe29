"""What erasing rows through Spark costs, and where it is refused because it would lose too much.

Worked out from metadata, so that a plan can warn or refuse without starting Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import iceberg_would_also_take
from lakewarden.engine.catalog.snapshots import named, notes_of
from lakewarden.engine.files.unreachable import unreachable_after
from lakewarden.errors import CommitRefused, Conflict, StalePlan
from lakewarden.quantities import to_millis

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName


def costs(table: Table, refs: Sequence[str]) -> list[str]:
    """What is lost or takes longer for these refs, which reach such rows."""
    metadata = table.metadata
    there = [ref for ref in refs if ref in metadata.refs]
    if not there:
        return []
    return [*_work(table, there), *_times(table, there), *_schemas(table, there)]


def lost_columns(table: Table, refs: Sequence[str]) -> dict[str, list[str]]:
    """For tags, the columns that the table has dropped: rewritten by Spark, the tags lose them permanently."""
    current = table.schema()
    lost = {}
    for ref in refs:
        at = table.metadata.refs.get(ref)
        own = _own_schema(table, ref) if at is not None and at.snapshot_ref_type == "tag" else None
        gone = sorted(own.field_ids - current.field_ids) if own is not None else []
        if own is not None and gone:
            lost[ref] = [_name(own, field) for field in gone]
    return lost


def check_nothing_else_goes(table: Table, name: TableName, snapshots: Collection[int], refs: Collection[str]) -> None:
    """Refuse if Iceberg's expiry of these snapshots, once the refs are moved, would remove more."""
    kinds = {ref: str(table.metadata.refs[ref].snapshot_ref_type) for ref in refs if ref in table.metadata.refs}
    tags = [ref for ref, kind in kinds.items() if kind == "tag"]  # which are moved to a new version
    found = iceberg_would_also_take(table.metadata, snapshots, tags, to_millis(datetime.now(UTC)))
    more = [one for one in found if one not in {f"{kind} {ref}" for ref, kind in kinds.items()}]
    if more:
        raise CommitRefused(
            f"{name}: Iceberg's expiry on Spark, which the purge ends with, would also remove {', '.join(more)}",
            "Nothing was changed. Expire them first: lakewarden retention expire.",
        )
    check_nothing_elsewhere(name, unreachable_after(table, snapshots).elsewhere, "Nothing was changed.")


def check_nothing_elsewhere(name: TableName, files: int, so_far: str) -> None:
    """Refuse if files outside the table's own folders would be deleted."""
    if files:
        raise CommitRefused(
            f"{name}: Iceberg's expiry on Spark, which the purge ends with, would also delete "
            f"{files} {'file' if files == 1 else 'files'} outside its location",
            f"{so_far} Another table may own them, and this format offers no other way. If only this table uses them, "
            "set its property write.data.path to their folder; else copy its rows to a new table, and drop this one "
            "without PURGE.",
        )


def check_nothing_staged(table: Table, name: str, snapshots: Collection[int], is_planned: bool = True) -> None:
    """Refuse, on any route, to expire a snapshot that was staged for review before publishing.

    No ref reaches it yet. A snapshot that a ref was moved to is published, and in that ref's history.
    """
    notes = {snapshot.snapshot_id: notes_of(snapshot) for snapshot in table.metadata.snapshots}
    published = {summary.get("published-wap-id") for summary in notes.values()}
    waiting = [
        id
        for id, summary in notes.items()
        if id in snapshots and summary.get("wap.id") and summary["wap.id"] not in published
    ]
    if not waiting:
        return
    leading = named(table)
    staged = [id for id in waiting if id not in leading]
    if staged:
        what = (
            f"{name}: snapshot {staged[0]} is staged and not published; it contains such rows, and erasing them "
            "would lose the whole snapshot"
        )
        hint = "Publish it or expire it (retention expire), and plan again."
        raise StalePlan(f"the plan is stale: {what}", hint) if is_planned else Conflict(what, hint)


def _own_schema(table: Table, ref: str) -> Schema | None:
    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    snapshot = table.snapshot_by_id(table.metadata.refs[ref].snapshot_id)
    return schemas.get(snapshot.schema_id) if snapshot and snapshot.schema_id is not None else None


def _work(table: Table, refs: Sequence[str]) -> Iterator[str]:
    versions = {table.metadata.refs[ref].snapshot_id for ref in refs}
    if len(versions) > 1:
        yield (
            f"format v{table.metadata.format_version} goes ref by ref through Spark: {len(versions)} versions are "
            "rebuilt one by one, and a file that they share is rewritten for each of them"
        )
    if len(refs) > 1:
        yield (
            f"{len(refs)} refs are moved one after the other: if interrupted, some are at the old versions and "
            "some at the new ones until the operation is resumed"
        )


def _times(table: Table, refs: Sequence[str]) -> Iterator[str]:
    yield "the new versions have the time of the purge: time travel to before it does not find them"
    aging = [ref for ref in refs if table.metadata.refs[ref].max_ref_age_ms is not None]
    if aging:
        yield f"retention starts again at the purge for {', '.join(aging)}"


def _schemas(table: Table, refs: Sequence[str]) -> Iterator[str]:
    """Spark commits with the table's current schema, whatever the version's schema was."""
    current = table.schema()
    for ref in refs:
        own = _own_schema(table, ref)
        if own is None or own.schema_id == current.schema_id:
            continue
        kind = table.metadata.refs[ref].snapshot_ref_type
        changes = "; ".join(_changes(own, current))
        yield f"{kind} {ref} will have the table's current schema" + (f": {changes}" if changes else "")


def _changes(own: Schema, current: Schema) -> Iterator[str]:
    lost = sorted(own.field_ids - current.field_ids)
    if lost:
        yield f"it permanently loses {', '.join(_name(own, field) for field in lost)}, which the table has dropped"
    for field in sorted(own.field_ids & current.field_ids):
        if _name(own, field) != _name(current, field):
            yield f"{_name(own, field)} is renamed to {_name(current, field)}"
        before, after = own.find_type(field), current.find_type(field)
        if before.is_primitive and before != after:
            yield f"the type of {_name(current, field)} changes from {before} to {after}"
    added = sorted(current.field_ids - own.field_ids)
    if added:
        yield f"it gains {', '.join(_name(current, field) for field in added)}"


def _name(schema: Schema, field: int) -> str:
    return str(schema.find_column_name(field))
