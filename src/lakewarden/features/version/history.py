"""A table's snapshots as rows: when and by whom they were committed, their size, and their tags and branches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.features.shared.summary import live_rows, total
from lakewarden.features.version.refs import Ref, refs_of
from lakewarden.quantities import Bytes, SnapshotId, from_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class VersionRow:
    """One snapshot; the totals are unknown if its writer did not record them."""

    snapshot_id: SnapshotId
    committed_at: datetime
    operation: str
    rows: int | None
    files: int | None
    bytes: Bytes | None
    tags: list[str]
    branches: list[str]
    who: str
    kept_until: datetime | None = None
    """When the last of its tags ends; none if it has none, or one without an end."""


def versions(table: Table) -> list[VersionRow]:
    """All snapshots, newest first, including those on no branch."""
    named = _Names(table)
    newest_first = sorted(
        table.metadata.snapshots, key=lambda s: (s.timestamp_ms, s.sequence_number or 0), reverse=True
    )
    return [_row(snapshot, named) for snapshot in newest_first]


def version_row(table: Table, snapshot: Snapshot) -> VersionRow:
    return _row(snapshot, _Names(table))


class _Names:
    """Tags and branches by snapshot and kind."""

    def __init__(self, table: Table) -> None:
        self._refs: dict[tuple[int, str], list[Ref]] = {}
        for ref in refs_of(table):
            self._refs.setdefault((ref.snapshot_id, ref.kind), []).append(ref)

    def of(self, snapshot: int, kind: str) -> list[str]:
        return [ref.name for ref in self._refs.get((snapshot, kind), [])]

    def kept_until(self, snapshot: int) -> datetime | None:
        ends = [ref.kept_until for ref in self._refs.get((snapshot, "tag"), [])]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None


def _row(snapshot: Snapshot, named: _Names) -> VersionRow:
    return VersionRow(
        snapshot_id=snapshot.snapshot_id,
        committed_at=from_millis(snapshot.timestamp_ms),
        operation=snapshot.summary.operation.value if snapshot.summary else "",
        rows=live_rows(snapshot),
        files=total(snapshot, "data-files"),
        bytes=total(snapshot, "files-size"),
        tags=named.of(snapshot.snapshot_id, "tag"),
        branches=named.of(snapshot.snapshot_id, "branch"),
        who=_who(snapshot),
        kept_until=named.kept_until(snapshot.snapshot_id),
    )


def _who(snapshot: Snapshot) -> str:
    """The actor that Lakewarden recorded, or else the engine and application that wrote the snapshot."""
    facts = notes_of(snapshot)
    if "lakewarden.actor" in facts:
        return facts["lakewarden.actor"]
    engine = " ".join(facts[key] for key in ("engine-name", "engine-version") if key in facts)
    application = facts.get("app-name") or facts.get("app-id") or facts.get("spark.app.id") or ""
    return f"{application} ({engine})" if engine and application else engine or application
