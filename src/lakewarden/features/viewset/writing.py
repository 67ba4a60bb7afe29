"""Writes partitions of a view set: many in one Spark job, published by one commit.

Spark stages the rows; what they replace leaves the table in the commit that adds them, so a reader sees the former rows
or the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakewarden.engine.catalog.snapshots import notes_of, operation_of
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.engine.rows.read import version_schema
from lakewarden.engine.sql.queries import Cut, RangeColumns, Ranges, Source
from lakewarden.errors import BadValue, StalePlan
from lakewarden.features.viewset.catalogue import Identity, identity_text
from lakewarden.features.viewset.definition import (
    BEGIN,
    END,
    GLOBAL,
    HASH,
    IDENTITY,
    INSTANCE,
    SOURCE_HASH,
    UPDATED,
    ViewSet,
)
from lakewarden.lifecycle.failpoints import reach
from lakewarden.quantities import from_micros

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader, Writer

EMPTY = "0" * 16
"""The digest of a range without source rows."""
Bounds = tuple[datetime, datetime]
_ATTEMPTS = 3


@dataclass(frozen=True)
class Wanted:
    """The partitions of one instance that are to be written."""

    view: ViewSet
    instance: str
    ranges: Ranges
    digests: Mapping[int, str]
    """By number, what the source holds in each range that is to be written."""
    versions: Mapping[str, Resolved]

    @property
    def cut(self) -> Cut:
        return Cut(source_of(self.view, self.instance, self.versions), self.ranges, self.digests)

    def bounds(self) -> dict[Bounds, str]:
        return {self.ranges.of(number): digest for number, digest in self.digests.items()}

    def identities(self) -> list[Identity]:
        return [(self.instance, begin, end, self.view.schema_hash) for begin, end in self.bounds()]


def source_of(view: ViewSet, instance: str, versions: Mapping[str, Resolved]) -> Source:
    given = view.definition
    if instance != GLOBAL and given.instances is None:
        raise BadValue(f"the view set {view.name} has one instance only, {GLOBAL}", "Its definition has no instances.")
    only = None if instance == GLOBAL or given.instances is None else (given.instances, instance)
    return Source(versions[given.source], given.source, given.insert_time, only)


def source_digests(lake: Reader, view: ViewSet, source: Source, ranges: Ranges) -> dict[int, str]:
    """What the source holds in each range: equal if its rows are equal, in whatever files they lie."""
    known = [field.name for field in version_schema(source.version).fields]
    columns = sorted({*view.definition.statement.columns_of(known), source.insert_time})
    found = lake.queries.digests(source, ranges, columns)
    return {number: found.get(number, EMPTY) for number in range(ranges.count)}


def write(
    lake: Writer,
    wanted: Wanted,
    replaced: Sequence[str],
    replaced_empty: set[str],
    check: Callable[[Table], None],
) -> dict[str, int]:
    """Write partitions, and take out the files that they replace in the same commit, if `check` lets it."""
    view = wanted.view
    name, uuid = str(view.table_name), str(view.table.metadata.table_uuid)
    columns = RangeColumns(
        begin=BEGIN,
        end=END,
        digest=SOURCE_HASH,
        constants={INSTANCE: wanted.instance, HASH: view.schema_hash, UPDATED: lake.clock()},
    )
    with lake.queries.rows_of(view.definition.statement, wanted.versions, wanted.cut, columns) as rows:
        staged = lake.staging.stage(name, rows, in_order=True)
    reach("viewset.staged")
    live = lake.files.of(view.table, view.table.current_snapshot()).by_path
    removed = {path: live[path].deletes_identity if path in live else frozenset[str]() for path in replaced}
    lake.commits.publish(Overwrite(name, uuid, staged=staged, removed=removed, check=check))
    reach("viewset.published")
    filled = {_bounds_of(added) for added in staged.added}
    empty = {bounds: digest for bounds, digest in wanted.bounds().items() if bounds not in filled}
    own = {identity_text(dict(zip(IDENTITY, one, strict=True))) for one in wanted.identities()}
    write_empty(lake, view, wanted.instance, empty, replaced_empty | own)
    return {"partitions": len(wanted.digests), "empty_partitions": len(empty), "rows": staged.rows}


def write_empty(lake: Writer, view: ViewSet, instance: str, empty: Mapping[Bounds, str], replaced: set[str]) -> None:
    """Record partitions without rows, in place of others."""
    now, current = lake.clock(), view.schema_hash
    new = [
        {INSTANCE: instance, BEGIN: begin, END: end, HASH: current, SOURCE_HASH: digest, UPDATED: now}
        for (begin, end), digest in empty.items()
    ]
    change_empty(lake, view, lambda rows: [*(row for row in rows if stored_identity(view, row) not in replaced), *new])


def rewrite_empty(lake: Writer, view: ViewSet, identities: set[str]) -> None:
    """Have partitions without rows count as written with the current schema."""
    if identities:
        change_empty(
            lake,
            view,
            lambda rows: [
                {**row, HASH: view.schema_hash} if stored_identity(view, row) in identities else row for row in rows
            ],
        )


def remove_empty(lake: Writer, view: ViewSet, identities: set[str]) -> None:
    """Forget partitions without rows."""
    if identities:
        change_empty(lake, view, lambda rows: [row for row in rows if stored_identity(view, row) not in identities])


def removed_empty(lake: Reader, view: ViewSet, operation: str, action: str | None = None) -> dict[str, dict[str, Any]]:
    """The partitions without rows that an operation, or one of its actions, removed: records by identity."""
    table = lake.tables.load(view.empty_table)
    gone: dict[str, dict[str, Any]] = {}
    for snapshot in table.metadata.snapshots:
        parent = snapshot.parent_snapshot_id
        if parent is not None and table.snapshot_by_id(parent) is not None and is_by(snapshot, operation, action):
            before, after = (rows_at(view, table, one) for one in (parent, snapshot.snapshot_id))
            gone |= {identity: row for identity, row in before.items() if identity not in after}
    return gone


def empty_before(lake: Reader, view: ViewSet, operation: str) -> list[str]:
    """The partitions without rows that an operation removed and that are not there now, by identity."""
    gone = removed_empty(lake, view, operation)
    now = rows_at(view, lake.tables.load(view.empty_table), None) if gone else {}
    return [identity for identity in gone if identity not in now]


def bring_back_empty(lake: Writer, view: ViewSet, operation: str) -> None:
    gone = removed_empty(lake, view, operation)
    back = [gone[identity] for identity in empty_before(lake, view, operation)]
    if back:
        change_empty(lake, view, lambda rows: [*rows, *back])


def is_by(snapshot: Snapshot, operation: str, action: str | None) -> bool:
    """Whether an operation, or one of its actions, made a version."""
    is_own = action is None or notes_of(snapshot).get("lakewarden.action") == action
    return is_own and operation_of(snapshot) == operation


def rows_at(view: ViewSet, table: Table, snapshot_id: int | None) -> dict[str, dict[str, Any]]:
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return {stored_identity(view, row): row for row in rows}


def stored_identity(view: ViewSet, row: Mapping[str, Any]) -> str:
    return identity_text({**row, HASH: view.counts_as(row[HASH])})


def change_empty(lake: Writer, view: ViewSet, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Rewrite the list of partitions without rows, in one commit of its own; again if it was compacted meanwhile."""
    for attempt in range(_ATTEMPTS):
        try:
            return _publish_empty(lake, view, change)
        except StalePlan:
            if attempt == _ATTEMPTS - 1:
                raise


def _publish_empty(lake: Writer, view: ViewSet, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import _dataframe_to_data_files, schema_to_pyarrow

    table = lake.tables.load(view.empty_table)
    before = table.scan().to_arrow().to_pylist() if table.current_snapshot() is not None else []
    after = change(before)
    if after == before:
        return
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    rows = pa.Table.from_pylist(after, schema=schema)
    files = tuple(
        AddedFile(file, table.metadata.default_spec_id)
        for file in (_dataframe_to_data_files(table.metadata, rows, table.io) if after else ())
    )
    live = lake.files.of(table, table.current_snapshot()).by_path
    removed = {path: file.deletes_identity for path, file in live.items()}
    uuid, name = str(table.metadata.table_uuid), view.empty_table
    lake.part("empty").commits.publish(
        Overwrite(name, uuid, files, removed=removed) if removed else Append(name, uuid, files)
    )


def _bounds_of(added: AddedFile) -> Bounds:
    record = added.file.partition
    return from_micros(record[1]), from_micros(record[2])
