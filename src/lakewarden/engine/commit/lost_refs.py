"""What an expiry took along unseen, and how it is given back.

A REST catalog checks that the refs which a commit names are where they were. That there are no others cannot be
required: a tag that somebody makes after we looked and before the server does goes with its snapshot, and nobody is
told. So the metadata that the server expired on is looked at afterwards. Where a name was lost, everything that
expired comes back, before any file has gone. Catalogs whose metadata the client writes refuse such a commit instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import told
from lakewarden.engine.catalog.snapshot_removal import LINEAGE, lineage_of
from lakewarden.engine.commit.publish import by_client, ref_update

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

_OURS = "lakewarden."


@dataclass(frozen=True)
class TakenAlong:
    """The names that were lost, in words, and the metadata as it was before."""

    says: tuple[str, ...]
    expired: frozenset[int]
    before: TableMetadata = field(repr=False)

    def lost_refs(self, table: Table) -> list[str]:
        """Names that led to what expired and that nobody has given to something else since."""
        refs = self.before.refs.items()
        return [name for name, ref in refs if ref.snapshot_id in self.expired and name not in table.metadata.refs]

    def ref_updates(self, table: Table) -> list[TableUpdate]:
        """What points the lost names at their snapshots again."""
        lost = {name: self.before.refs[name] for name in self.lost_refs(table)}
        return [ref_update(name, str(ref.snapshot_ref_type), ref.snapshot_id, ref) for name, ref in lost.items()]

    def updates(self, table: Table) -> tuple[TableUpdate, ...]:
        """What brings all of it back; nothing where it is there."""
        from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, SetPropertiesUpdate

        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        back = [s for s in self.before.snapshots if s.snapshot_id in self.expired and s.snapshot_id not in there]
        if not back:
            return ()
        passing = passing_version(table, back[-1])
        return (
            *(AddSnapshotUpdate(snapshot=_rootless(table, snapshot)) for snapshot in back),
            *self.ref_updates(table),
            AddSnapshotUpdate(snapshot=passing),
            RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [passing.snapshot_id]}),
            SetPropertiesUpdate.model_validate({"updates": self._properties(table, back)}),
        )

    def _properties(self, table: Table, back: Iterable[Snapshot]) -> dict[str, str]:
        """What we remembered of the table, and which version each that comes back was built on."""
        ours = {
            key: value
            for key, value in self.before.properties.items()
            if key.startswith(_OURS) and key not in table.metadata.properties
        }
        parents = {s.snapshot_id: s.parent_snapshot_id for s in back if s.parent_snapshot_id is not None}
        lineage = lineage_of(self.before.properties) | parents
        return ours | {LINEAGE: json.dumps({str(child): parent for child, parent in lineage.items()})}


def taken_along(table: Table, snapshots: Iterable[int], tags: Iterable[str]) -> TakenAlong | None:
    """Whether names that were not to go went with these snapshots; told from the table's earlier metadata."""
    if by_client(table):
        return None
    going, gone_tags = frozenset(snapshots), set(tags)
    with told(f"table {'.'.join(table.name())}"):
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
    says = tuple(f"{ref.snapshot_ref_type} {name} was made at snapshot {ref.snapshot_id}" for name, ref in lost.items())
    return TakenAlong(says, going & lists.keys(), before)


def _earlier(table: Table) -> Iterator[TableMetadata]:
    """The table's metadata as it was before, and before that, as far as it is kept."""
    from pyiceberg.serializers import FromInputFile

    for entry in reversed(table.metadata.metadata_log):
        try:
            yield FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            return


def _rootless(table: Table, snapshot: Snapshot) -> Snapshot:
    """A snapshot as an old one can be added: as one that is built on nothing, and gives no row an id."""
    return snapshot.model_copy(update={"parent_snapshot_id": None, **_no_new_rows(table)})


def passing_version(table: Table, like: Snapshot, after: int | None = None) -> Snapshot:
    """A snapshot that goes again at once: after old ones, it sets the table's clock and its sequence right."""
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
