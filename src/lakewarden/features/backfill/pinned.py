"""What a backfill reads: versions of its source and of the tables that it joins, as they are pinned by a run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import replacements_of
from lakewarden.engine.rows.read import version_schema
from lakewarden.engine.sql.batches import NoVersion, Reading
from lakewarden.engine.sql.tuples import TupleColumns
from lakewarden.errors import Conflict, VersionNotFound
from lakewarden.features.backfill import withdrawn
from lakewarden.features.backfill.registration import Backfill
from lakewarden.lifecycle.action import Action

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.sql.insertion import Insertion
    from lakewarden.lifecycle.ground import Reader

NONE = ""
"""In place of a snapshot, if a table had none."""


def reading_of(lake: Reader, backfill: Backfill, action: Action) -> Reading:
    """What an action reads, as it was planned."""
    backfill.refuse_other_tables(lake)
    source = json.loads(str(action.arguments["source"]))
    since = action.arguments.get("since")
    reading = read_versions(lake, backfill, source, str(since) if since else None)
    return with_shown(lake, reading, str(action.arguments.get("shown", "")))


def as_pinned(lake: Reader, backfill: Backfill, pinned: dict[str, str], since: str | None) -> Reading:
    """What a run reads. It is never replaced by another version, of which rows would be written twice or not at all."""
    try:
        return read_versions(lake, backfill, pinned, since)
    except VersionNotFound as error:
        raise Conflict(
            f"a version that backfill {backfill.id} has read is gone: {error.message}",
            "Which rows are left is not known. Undo the backfill and run it again, or write the rest by a new version "
            "of its files with initial_checkpoint.",
        ) from None


def read_versions(lake: Reader, backfill: Backfill, pinned: dict[str, str], since: str | None = None) -> Reading:
    insertion, spelled = backfill.insertion, backfill.source

    def version(table: str, at: str | None) -> Resolved | NoVersion:
        name = backfill.table(lake, table)
        current = lake.tables.load(name)
        if at == NONE or (at is None and current.current_snapshot() is None):
            return NoVersion(name, current.schema())
        try:
            return _resolved(lake, name, current, at) if at else lake.tables.resolve(str(name))
        except VersionNotFound:
            if not at or table == spelled:
                raise
            return lake.tables.resolve(str(name))  # rows are only joined with it: its current version serves as well

    versions = {table: version(table, pinned.get(table)) for table in insertion.tables}
    source = versions[spelled]
    schema = source.schema if isinstance(source, NoVersion) else version_schema(source)
    columns = TupleColumns.of(schema, backfill.files.meta.checkpoint_columns, spelled)
    return Reading(
        insertion=insertion,
        source=spelled,
        columns=columns,
        versions=versions,
        since=_since(lake, backfill.table(lake, spelled), since) if since else None,
        initial=columns.given(backfill.files.meta.initial_checkpoint),
    )


def _since(lake: Reader, name: TableName, since: str) -> Resolved:
    return _resolved(lake, name, lake.tables.load(name), since)


def _resolved(lake: Reader, name: TableName, table: Table, snapshot: str) -> Resolved:
    """A version that was read, or what a purge has put in its place: the same without rows that were erased."""
    return lake.tables.resolve(f"{name}@{replacements_of(table.metadata.properties).get(int(snapshot), snapshot)}")


def refuse_changed_columns(lake: Reader, reading: Reading) -> None:
    """Refuse if columns that are read are others than at a table's last commit.

    A head of main is planned as what it is now, and read by its id: Spark then gives it the columns of its commit.
    """
    for version in reading.versions.values():
        if isinstance(version, NoVersion):
            continue
        committed = lake.tables.resolve(f"{version.name}@{version.snapshot.snapshot_id}")
        now, then = (_columns_read(version_schema(each), reading.insertion) for each in (version, committed))
        if now != then:
            names = sorted({column for column, _ in now ^ then})
            changed = f"column{'s' if names[1:] else ''} {', '.join(names)}"
            raise Conflict(
                f"{version.name}: {changed} changed after its last commit, and a version is read with the columns of "
                "its commit",
                f"Write a row to it, or compact it: lakewarden compaction compact {version.name} --rewrite-all --apply",
            )


def _columns_read(schema: Schema, insertion: Insertion) -> set[tuple[str, int]]:
    names = set(insertion.columns_read([field.name for field in schema.fields]))
    return {(field.name, field.field_id) for field in schema.fields if field.name in names}


def with_shown(lake: Reader, reading: Reading, shown: str) -> Reading:
    if reading.since is None or not shown:
        return reading
    return replace(reading, hidden_before=withdrawn.keys_of(lake, reading.since, shown.split()))


def pins(reading: Reading) -> dict[str, str]:
    """By table, the id of the snapshot that is read."""
    return {
        spelled: NONE if isinstance(version, NoVersion) else str(version.snapshot.snapshot_id)
        for spelled, version in reading.versions.items()
    }
