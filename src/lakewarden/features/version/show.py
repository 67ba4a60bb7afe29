"""`version show`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.display import Shown
from lakewarden.engine.catalog.snapshots import ancestors, notes_of
from lakewarden.engine.rows.read import version_schema
from lakewarden.features.shared.columns import Column, columns_of
from lakewarden.features.shared.summary import number
from lakewarden.features.version.history import version_row
from lakewarden.features.version.refs import Ref, refs_of
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question, Version
from lakewarden.quantities import Bytes, SnapshotId


@dataclass(frozen=True)
class VersionDetail(Shown):
    """One version in full: its size, what it changed, its schema, and its tags and branches."""

    table: str
    snapshot_id: SnapshotId
    parent_snapshot_id: SnapshotId | None
    committed_at: datetime
    operation: str
    who: str
    on_main: bool
    rows: int | None
    files: int | None
    bytes: Bytes | None
    rows_added: int | None
    rows_deleted: int | None
    files_added: int | None
    files_removed: int | None
    refs: list[Ref]
    schema_id: int | None
    columns: list[Column]
    manifest_list: str
    summary: dict[str, str]


class Show(Question[VersionDetail]):
    """Show one version of a table: its size, what it changed, its schema, and its tags and branches."""

    version: Version

    def ask(self, lake: Reader) -> VersionDetail:
        found = lake.tables.resolve(self.version)
        table, snapshot = found.table, found.snapshot
        row, facts = version_row(table, snapshot), notes_of(snapshot)
        return VersionDetail(
            table=str(found.name),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            committed_at=row.committed_at,
            operation=row.operation,
            who=row.who,
            on_main=snapshot.snapshot_id in set(ancestors(table, table.metadata.current_snapshot_id)),
            rows=row.rows,
            files=row.files,
            bytes=row.bytes,
            rows_added=number(facts, "added-records"),
            rows_deleted=number(facts, "deleted-records"),
            files_added=number(facts, "added-data-files"),
            files_removed=number(facts, "deleted-data-files"),
            refs=[ref for ref in refs_of(table) if ref.snapshot_id == snapshot.snapshot_id],
            schema_id=snapshot.schema_id,
            columns=columns_of(version_schema(found)),
            manifest_list=snapshot.manifest_list,
            summary=dict(sorted(facts.items())),
        )
