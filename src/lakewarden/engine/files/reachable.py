"""Which files a table's metadata references: no version of the table needs any other file."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.kept import Kept
from lakewarden.engine.base.locations import apart
from lakewarden.engine.base.parallel import Branch, traverse
from lakewarden.engine.files.manifests import entries_at, manifests_of
from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Kind = Literal["data", "deletes", "manifest", "manifest-list", "statistics", "metadata"]
_PLACES = ("write.data.path", "write.metadata.path", "write.folder-storage.path", "write.object-storage.path")
_READERS = 4
_SETS_KEPT = 4


@dataclass(frozen=True, slots=True)
class ReachableFile:
    """A file that metadata references, with its size if metadata has it."""

    path: str
    kind: Kind
    bytes: int | None = None


class ReachableSet:
    """The paths of all files that a table's metadata references, as eight-byte digests.

    If two paths had the same digest, a file would be kept needlessly, which is safe. Authorities (buckets, name nodes)
    are kept separately: a path under another authority counts as the same file.
    """

    def __init__(self, files: Iterable[ReachableFile]) -> None:
        import numpy

        self.authorities: set[str] = set()
        self.has_data = False
        self._digests = array("Q")
        for file in files:
            authority, path = apart(file.path)
            self.authorities.add(authority)
            self.has_data = self.has_data or file.kind in ("data", "deletes")
            self._digests.append(_digest(path))
        if self._digests:
            numpy.frombuffer(self._digests, dtype=numpy.uint64).sort()

    def __len__(self) -> int:
        """The number of references; a file in several manifests counts several times."""
        return len(self._digests)

    def __contains__(self, location: str) -> bool:
        digest = _digest(apart(location)[1])
        place = bisect_left(self._digests, digest)
        return place < len(self._digests) and self._digests[place] == digest


def reachable_set(table: Table) -> ReachableSet:
    """Everything that a table's metadata references; cached by metadata file, which never changes."""
    return _sets.get(table.metadata_location, lambda: ReachableSet(reachable_files(table)))


_sets: Kept[ReachableSet] = Kept(_SETS_KEPT, lambda _: 1)


def reachable_files(table: Table, snapshots: Iterable[Snapshot] | None = None) -> Iterator[ReachableFile]:
    """All files that these snapshots, or all of the table's, reference; each manifest is read once.

    Includes the statistics of those snapshots, and for all snapshots the table's metadata files. Streamed: only some
    thousands are in memory at a time. A data file in several manifests occurs several times.
    """
    from pyiceberg.manifest import ManifestFile

    chosen = list(table.metadata.snapshots if snapshots is None else snapshots)
    ids = {snapshot.snapshot_id for snapshot in chosen}
    seen: set[str] = set()
    lock = threading.Lock()

    def look(task: Snapshot | ManifestFile) -> Iterator[ReachableFile | Branch[Snapshot | ManifestFile]]:
        if isinstance(task, ManifestFile):
            yield from manifest_and_files(table.io, task)
            return
        yield ReachableFile(task.manifest_list, "manifest-list")
        for manifest in manifests_of(table.io, task):
            with lock:
                is_new = manifest.manifest_path not in seen
                seen.add(manifest.manifest_path)
            if is_new:
                yield Branch(manifest)

    with translating(f"table {'.'.join(table.name())}"):
        starts: list[Snapshot | ManifestFile] = [*chosen]
        yield from traverse(starts, look, _READERS, "reachable")
        yield from (
            ReachableFile(statistics.statistics_path, "statistics", statistics.file_size_in_bytes)
            for statistics in [*table.metadata.statistics, *table.metadata.partition_statistics]
            if statistics.snapshot_id in ids
        )
        if snapshots is None:
            yield from metadata_files(table)


def manifests_and_files(
    io: FileIO, manifests: Iterable[ManifestFile], unreadable: list[str] | None = None
) -> Iterator[ReachableFile]:
    """Manifests and their live files. With `unreadable`, damaged manifests are collected there."""

    def look(manifest: ManifestFile) -> Iterator[ReachableFile]:
        try:
            yield from manifest_and_files(io, manifest)
        except BrokenTable:
            if unreadable is None:
                raise
            unreadable.append(manifest.manifest_path)

    return traverse(manifests, look, _READERS, "reachable")


def metadata_files(table: Table) -> Iterator[ReachableFile]:
    """The table's current metadata file, and the earlier ones in its log."""
    yield ReachableFile(table.metadata_location, "metadata")
    yield from (ReachableFile(entry.metadata_file, "metadata") for entry in table.metadata.metadata_log)


def own_places(table: Table) -> list[str]:
    """The folders that a table writes to: its location, and those named in its properties."""
    properties = (table.metadata.properties.get(name) for name in _PLACES)
    return list(dict.fromkeys(place.rstrip("/") for place in (table.metadata.location, *properties) if place))


def manifest_and_files(io: FileIO, manifest: ManifestFile) -> Iterator[ReachableFile]:
    """Read entry by entry: all entries of a large manifest with their metrics would not fit into memory."""
    from pyiceberg.manifest import ManifestEntryStatus

    yield ReachableFile(manifest.manifest_path, "manifest", manifest.manifest_length)
    kind: Kind = "deletes" if manifest.content else "data"
    for entry in entries_at(io, manifest.manifest_path):
        if entry.status != ManifestEntryStatus.DELETED:
            yield ReachableFile(entry.data_file.file_path, kind, entry.data_file.file_size_in_bytes)


def _digest(path: str) -> int:
    return int.from_bytes(blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
