"""Files that came to a table since a moment, in whichever version.

A moment in a table's life is a mark: its sequence number, and where format v1 has none the snapshots that were there.
A file that Lakewarden's own rewrite made of others brings nothing new as long as those others are looked at.
What they hold is for others to look at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import told
from lakewarden.engine.catalog.snapshots import lines_of
from lakewarden.engine.files.manifests import manifests_of, read_entries

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_READERS = 8


@dataclass(frozen=True)
class Mark:
    """A moment in a table's life: whatever had come by then is behind it."""

    sequence: int = 0
    snapshots: frozenset[int] = frozenset()

    @staticmethod
    def now(metadata: TableMetadata, before: Mark, arrived: Iterable[Arrival] = ()) -> Mark:
        """The moment of this metadata, all that is told to have arrived being behind it."""
        sequence = getattr(metadata, "last_sequence_number", 0)  # which format v1 has not
        if sequence:
            return Mark(sequence)
        there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        return Mark(0, before.snapshots | there | {file.added_by for file in arrived})

    @staticmethod
    def at(table: Table, snapshots: Iterable[int]) -> Mark:
        """The moment at which these were the heads of a table, as far as it still knows them."""
        known = [found for id in snapshots if (found := table.snapshot_by_id(id)) is not None]
        behind = lines_of(table, (head.snapshot_id for head in known))
        return Mark(max((head.sequence_number or 0 for head in known), default=0), frozenset(behind))

    @staticmethod
    def earliest(marks: Sequence[Mark]) -> Mark:
        """What is behind every one of some marks; nothing where there is none."""
        sequence = min((mark.sequence for mark in marks), default=0)
        unnumbered = [mark.snapshots for mark in marks if not mark.sequence]
        return Mark(sequence, frozenset.intersection(*unnumbered) if unnumbered else frozenset())

    def covers(self, sequence: int | None, added_by: int | None) -> bool:
        """Whether what was added with this number, by this snapshot, is behind it. Once there are numbers, all is
        behind them that has none."""
        if sequence:
            return sequence <= self.sequence
        return self.sequence > 0 or added_by in self.snapshots


@dataclass(frozen=True)
class Arrival:
    """A file that holds rows, or equality deletes, of a table."""

    path: str
    bytes: int
    rows: int
    content: str
    format: str
    added_by: int
    partition: Mapping[int, Any]
    """Values that all rows have in a column, by its field id: a file that came by another way may not hold them."""


def fingerprint(path: str) -> str:
    """What a file is known by where its path may not be written down."""
    return sha256(path.encode()).hexdigest()[:32]


def arrivals(table: Table, since: Mark, again: Collection[str] = ()) -> list[Arrival]:
    """Files of any version that came after a mark, and those of these fingerprints that are still there."""
    metadata, about = table.metadata, f"table {'.'.join(table.name())}"
    rewritten = _own_rewrites(metadata)
    newer = [s for s in metadata.snapshots if again or not since.covers(s.sequence_number, s.snapshot_id)]
    with told(about), ThreadPoolExecutor(_READERS, thread_name_prefix="arrivals") as readers:
        lists = readers.map(lambda snapshot: manifests_of(table.io, snapshot), newer)
        manifests = {
            manifest.manifest_path: manifest
            for listed in lists
            for manifest in listed
            if again or not since.covers(manifest.sequence_number, manifest.added_snapshot_id)
        }
        entries = readers.map(lambda manifest: _entries(table.io, manifest), manifests.values())
        found = {
            entry.data_file.file_path: entry
            for some in entries
            for entry in some
            if (again and fingerprint(entry.data_file.file_path) in again)
            or not (since.covers(_sequence(entry), entry.snapshot_id) or entry.snapshot_id in rewritten)
        }
    specs = metadata.specs()
    return [_arrival(found[path], specs) for path in sorted(found)]


def _own_rewrites(metadata: TableMetadata) -> frozenset[int]:
    """Snapshots that Lakewarden made to hold the same as those before them, which are still there to be looked at."""
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    return frozenset(s.snapshot_id for s in metadata.snapshots if s.parent_snapshot_id in there and _is_own_rewrite(s))


def _is_own_rewrite(snapshot: Snapshot) -> bool:
    summary = snapshot.summary
    if summary is None or summary.operation.value != "replace":
        return False
    return "lakewarden.operation" in summary.additional_properties


def _entries(io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """What a manifest lists that holds values of columns: data files, and equality deletes."""
    from pyiceberg.manifest import DataFileContent

    positions = DataFileContent.POSITION_DELETES
    return [entry for entry in read_entries(io, manifest) if entry.data_file.content != positions]


def _sequence(entry: ManifestEntry) -> int | None:
    return entry.file_sequence_number or entry.sequence_number


def _arrival(entry: ManifestEntry, specs: Mapping[int, PartitionSpec]) -> Arrival:
    from pyiceberg.manifest import DataFileContent

    file = entry.data_file
    fields = specs[file.spec_id or 0].fields
    return Arrival(
        path=file.file_path,
        bytes=file.file_size_in_bytes,
        rows=file.record_count,
        content="data" if file.content == DataFileContent.DATA else "equality-deletes",
        format=str(file.file_format.value).lower(),
        added_by=int(entry.snapshot_id or 0),
        partition={
            field.source_id: file.partition[place]
            for place, field in enumerate(fields)
            if str(field.transform) == "identity" and file.partition[place] is not None
        },
    )
