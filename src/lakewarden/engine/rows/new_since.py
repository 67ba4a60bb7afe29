"""Files added to a table since a point in its history, in any version.

That point is a mark: a sequence number, or for format v1 the set of existing snapshots. Files that Lakewarden's own
rewrites produced contain nothing new as long as their inputs are examined. Callers examine the contents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
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
    """A point in a table's history; everything that existed then is covered by it."""

    sequence: int = 0
    snapshots: frozenset[int] = frozenset()

    @staticmethod
    def now(metadata: TableMetadata, before: Mark, arrived: Iterable[Arrival] = ()) -> Mark:
        """The mark for this metadata, which also covers the files in `arrived`."""
        sequence = getattr(metadata, "last_sequence_number", 0)  # not in format v1
        if sequence:
            return Mark(sequence)
        there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        return Mark(0, before.snapshots | there | {file.added_by for file in arrived})

    @staticmethod
    def at(table: Table, snapshots: Iterable[int]) -> Mark:
        """The mark at which these snapshots were the heads of a table, as far as it still knows them."""
        known = [found for id in snapshots if (found := table.snapshot_by_id(id)) is not None]
        behind = lines_of(table, (head.snapshot_id for head in known))
        return Mark(max((head.sequence_number or 0 for head in known), default=0), frozenset(behind))

    @staticmethod
    def earliest(marks: Sequence[Mark]) -> Mark:
        """What every one of these marks covers; nothing if there are none."""
        sequence = min((mark.sequence for mark in marks), default=0)
        unnumbered = [mark.snapshots for mark in marks if not mark.sequence]
        return Mark(sequence, frozenset.intersection(*unnumbered) if unnumbered else frozenset())

    def covers(self, sequence: int | None, added_by: int | None) -> bool:
        """Whether a file added with this sequence number, by this snapshot, is covered.

        Once a table has sequence numbers, everything without one is covered.
        """
        if sequence:
            return sequence <= self.sequence
        return self.sequence > 0 or added_by in self.snapshots


@dataclass(frozen=True)
class Arrival:
    """A data file or equality delete file that was added to a table."""

    path: str
    bytes: int
    rows: int
    content: str
    format: str
    added_by: int
    partition: Mapping[int, Any]
    """Identity partition values by field id: files written by other tools may lack these columns."""


def fingerprint(path: str) -> str:
    """An id for a file whose path must not be stored."""
    return sha256(path.encode()).hexdigest()[:32]


def arrivals(table: Table, since: Mark, again: Collection[str] = ()) -> list[Arrival]:
    """Files of any version added after a mark, and existing files with these fingerprints."""
    metadata, about = table.metadata, f"table {'.'.join(table.name())}"
    rewritten = _own_rewrites(metadata)
    newer = [s for s in metadata.snapshots if again or not since.covers(s.sequence_number, s.snapshot_id)]
    with translating(about), ThreadPoolExecutor(_READERS, thread_name_prefix="arrivals") as readers:
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
    """Lakewarden's rewrite snapshots whose parents still exist, so that the rows are examined there."""
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    return frozenset(s.snapshot_id for s in metadata.snapshots if s.parent_snapshot_id in there and _is_own_rewrite(s))


def _is_own_rewrite(snapshot: Snapshot) -> bool:
    summary = snapshot.summary
    if summary is None or summary.operation.value != "replace":
        return False
    return "lakewarden.operation" in summary.additional_properties


def _entries(io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """The entries of a manifest that contain column values: data files and equality deletes."""
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
