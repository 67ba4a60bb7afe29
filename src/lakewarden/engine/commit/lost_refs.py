"""Finds refs that an expiry removed unnoticed, and restores them.

A REST catalog checks the refs that a commit names. A commit cannot require that there are no others: a tag created
after our check and before the server's is removed with its snapshot, silently. So the metadata that the server
committed on is checked afterwards. If a ref was lost, everything that expired is restored, before any file is deleted.
Catalogs where the client writes the metadata refuse such a commit instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.catalog.snapshot_removal import LINEAGE, lineage_of
from lakewarden.engine.commit.publish import by_client, ref_update

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

_OURS = "lakewarden."


@dataclass(frozen=True)
class LostRefs:
    """The lost refs, as sentences, and the metadata before the expiry."""

    says: tuple[str, ...]
    expired: frozenset[int]
    before: TableMetadata = field(repr=False)

    def lost_refs(self, table: Table) -> list[str]:
        """Refs to expired snapshots whose names are still free."""
        refs = self.before.refs.items()
        return [name for name, ref in refs if ref.snapshot_id in self.expired and name not in table.metadata.refs]

    def ref_updates(self, table: Table) -> list[TableUpdate]:
        """Point the lost refs at their snapshots again."""
        lost = {name: self.before.refs[name] for name in self.lost_refs(table)}
        return [ref_update(name, str(ref.snapshot_ref_type), ref.snapshot_id, ref) for name, ref in lost.items()]

    def updates(self, table: Table) -> tuple[TableUpdate, ...]:
        """The updates that restore everything; none if nothing is missing."""
        from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, SetPropertiesUpdate

        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        back = [s for s in self.before.snapshots if s.snapshot_id in self.expired and s.snapshot_id not in there]
        if not back:
            return ()
        passing = temporary_snapshot(table, back[-1])
        return (
            *(AddSnapshotUpdate(snapshot=_rootless(table, snapshot)) for snapshot in back),
            *self.ref_updates(table),
            AddSnapshotUpdate(snapshot=passing),
            RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [passing.snapshot_id]}),
            SetPropertiesUpdate.model_validate({"updates": self._properties(table, back)}),
        )

    def _properties(self, table: Table, back: Iterable[Snapshot]) -> dict[str, str]:
        """Lakewarden's own table properties, and the parents of the restored snapshots."""
        ours = {
            key: value
            for key, value in self.before.properties.items()
            if key.startswith(_OURS) and key not in table.metadata.properties
        }
        parents = {s.snapshot_id: s.parent_snapshot_id for s in back if s.parent_snapshot_id is not None}
        lineage = lineage_of(self.before.properties) | parents
        return ours | {LINEAGE: json.dumps({str(child): parent for child, parent in lineage.items()})}


def find_lost_refs(table: Table, snapshots: Iterable[int], tags: Iterable[str]) -> LostRefs | None:
    """Find refs that were lost with these snapshots, from the table's earlier metadata; None if there are none."""
    if by_client(table):
        return None
    going, gone_tags = frozenset(snapshots), set(tags)
    with translating(f"table {'.'.join(table.name())}"):
        before = next((m for m in _earlier(table) if going & {s.snapshot_id for s in m.snapshots}), None)
        if before is None:
            return None
        lost = {
            name: ref
            for name, ref in before.refs.items()
            if ref.snapshot_id in going and name not in gone_tags and name not in table.metadata.refs
        }
        lists = {s.snapshot_id: s.manifest_list for s in before.snapshots}
        if not lost or not all(table.io.new_input(lists[ref.snapshot_id]).exists() for ref in lost.values()):
            return None
    says = tuple(
        f"{ref.snapshot_ref_type} {name} was created at snapshot {ref.snapshot_id}" for name, ref in lost.items()
    )
    return LostRefs(says, going & lists.keys(), before)


def _earlier(table: Table) -> Iterator[TableMetadata]:
    """The table's earlier metadata, newest first, as far as it exists."""
    from pyiceberg.serializers import FromInputFile

    for entry in reversed(table.metadata.metadata_log):
        try:
            yield FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            return


def _rootless(table: Table, snapshot: Snapshot) -> Snapshot:
    """A snapshot in the form in which an old one can be added: without a parent, and assigning no row ids."""
    return snapshot.model_copy(update={"parent_snapshot_id": None, **_no_new_rows(table)})


def temporary_snapshot(table: Table, like: Snapshot, after: int | None = None) -> Snapshot:
    """A temporary snapshot: added after old ones, it corrects the table's timestamp and sequence number."""
    last = getattr(table.metadata, "last_sequence_number", -1) if after is None else after
    newest: dict[str, Any] = {
        "snapshot_id": table.metadata.new_snapshot_id(),
        "parent_snapshot_id": None,
        "timestamp_ms": max(int(time.time() * 1000), table.metadata.last_updated_ms),
        "sequence_number": last + 1,
    }
    return like.model_copy(update=newest | _no_new_rows(table))


def _no_new_rows(table: Table) -> dict[str, int]:
    next_row = getattr(table.metadata, "next_row_id", None)
    return {} if next_row is None else {"first_row_id": next_row, "added_rows": 0}
