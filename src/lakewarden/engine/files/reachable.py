"""Which files a table's metadata leads to: whatever is not among them, no version of the table needs."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.base.faults import told
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
    """A file that metadata leads to; its size where metadata tells it."""

    path: str
    kind: Kind
    bytes: int | None = None


class ReachableSet:
    """Every file that a table's metadata leads to, in eight bytes each: a digest of its path.

    Two paths with the same digest would keep a file that could go, which is the safe side. Authorities (buckets,
    name nodes) are kept apart from paths: a file that is known under another one is the same file told differently.
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
        """How many there are; one that several manifests list counts several times."""
        return len(self._digests)

    def __contains__(self, location: str) -> bool:
        digest = _digest(apart(location)[1])
        place = bisect_left(self._digests, digest)
        return place < len(self._digests) and self._digests[place] == digest


def reachable_set(table: Table) -> ReachableSet:
    """All that a table's metadata leads to. Kept for a while by the metadata's own file, which never changes."""
    return _sets.get(table.metadata_location, lambda: ReachableSet(reachable_files(table)))


_sets: Kept[ReachableSet] = Kept(_SETS_KEPT, lambda _: 1)


def reachable_files(table: Table, snapshots: Iterable[Snapshot] | None = None) -> Iterator[ReachableFile]:
    """Every file that these snapshots, or all of the table's, lead to; each manifest is read once, none is kept.

    Statistics of those snapshots are among them, and with all snapshots the table's metadata files too. Streamed:
    however many files there are, only some thousand are in memory at a time. A data file that several manifests
    list comes several times.
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

    with told(f"table {'.'.join(table.name())}"):
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
    """Manifests, and the live files that they list. Where some may be damaged, those come to be `unreadable`."""

    def look(manifest: ManifestFile) -> Iterator[ReachableFile]:
        try:
            yield from manifest_and_files(io, manifest)
        except BrokenTable:
            if unreadable is None:
                raise
            unreadable.append(manifest.manifest_path)

    return traverse(manifests, look, _READERS, "reachable")


def metadata_files(table: Table) -> Iterator[ReachableFile]:
    """The table's own metadata file, and the earlier ones that it has a record of."""
    yield ReachableFile(table.metadata_location, "metadata")
    yield from (ReachableFile(entry.metadata_file, "metadata") for entry in table.metadata.metadata_log)


def own_places(table: Table) -> list[str]:
    """Where a table's own files are written: its location, and other folders if its properties name some."""
    properties = (table.metadata.properties.get(name) for name in _PLACES)
    return list(dict.fromkeys(place.rstrip("/") for place in (table.metadata.location, *properties) if place))


def manifest_and_files(io: FileIO, manifest: ManifestFile) -> Iterator[ReachableFile]:
    """Entry by entry: with the bounds and counts of all its files at once, a large manifest would fill the memory."""
    from pyiceberg.manifest import ManifestEntryStatus

    yield ReachableFile(manifest.manifest_path, "manifest", manifest.manifest_length)
    kind: Kind = "deletes" if manifest.content else "data"
    for entry in entries_at(io, manifest.manifest_path):
        if entry.status != ManifestEntryStatus.DELETED:
            yield ReachableFile(entry.data_file.file_path, kind, entry.data_file.file_size_in_bytes)


def _digest(path: str) -> int:
    return int.from_bytes(blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
