"""How many bytes only certain snapshots of a table reference, exactly.

Each manifest list and manifest is read once. A file that several holders reference is counted once, as shared. Callers
define the holders, such as tags and branches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.base.parallel import traverse
from lakewarden.engine.files.manifests import manifests_of
from lakewarden.engine.files.reachable import Kind, ReachableFile, manifest_and_files

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_READERS = 8
Sizes = Callable[[Iterable[str]], Mapping[str, int | None]]


@dataclass
class Holding:
    """Files that one set of holders references and no other: their number, and bytes by kind."""

    files: int = 0
    by_kind: Counter[Kind] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        return self.by_kind.total()

    def count(self, file: ReachableFile, times: int = 1) -> None:
        self.files += times
        self.by_kind[file.kind] += times * (file.bytes or 0)


def holdings(table: Table, holders: Sequence[Collection[int]], sizes: Sizes) -> tuple[list[Holding], Holding]:
    """What only each holder's snapshots reference, and what several holders share.

    A snapshot may have several holders. `sizes` looks up the sizes of manifest lists, which metadata does not have.
    """
    masks: dict[int, int] = {}
    for place, snapshots in enumerate(holders):
        for snapshot in snapshots:
            masks[snapshot] = masks.get(snapshot, 0) | 1 << place
    tally = _Tally()
    with translating(f"table {'.'.join(table.name())}"):
        for file, mask in _referenced(table, masks, sizes):
            tally.add(file, mask)
    alone = [tally.held.pop(1 << place, Holding()) for place in range(len(holders))]
    shared = Holding()
    for held in tally.held.values():
        shared.files += held.files
        shared.by_kind.update(held.by_kind)
    return alone, shared


class _Tally:
    """The holders of each file, by a digest of its location, and totals per set of holders."""

    def __init__(self) -> None:
        self.held: dict[int, Holding] = {}
        self._holders: dict[int, int] = {}

    def add(self, file: ReachableFile, mask: int) -> None:
        """Count a file once for all its holders, however often it is listed."""
        place = hash(same_place(file.path))
        before = self._holders.get(place, 0)
        if before | mask == before:
            return
        if before:
            self.held[before].count(file, -1)
        self._holders[place] = before | mask
        self.held.setdefault(before | mask, Holding()).count(file)


def _referenced(table: Table, masks: Mapping[int, int], sizes: Sizes) -> Iterator[tuple[ReachableFile, int]]:
    """Every file that snapshots reference, with its holders; a file may occur several times."""
    metadata = table.metadata
    snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in masks]
    manifests: dict[str, ManifestFile] = {}
    listed_by: dict[str, int] = {}
    for snapshot, listed in _lists(table, snapshots):
        for manifest in listed:
            manifests[manifest.manifest_path] = manifest
            listed_by[manifest.manifest_path] = listed_by.get(manifest.manifest_path, 0) | masks[snapshot.snapshot_id]

    def look(path: str) -> Iterator[tuple[ReachableFile, int]]:
        return ((file, listed_by[path]) for file in manifest_and_files(table.io, manifests[path]))

    yield from traverse(manifests, look, _READERS, "held")
    lengths = sizes([snapshot.manifest_list for snapshot in snapshots])
    for snapshot in snapshots:
        size = lengths.get(snapshot.manifest_list)
        yield ReachableFile(snapshot.manifest_list, "manifest-list", size), masks[snapshot.snapshot_id]
    for statistics in [*metadata.statistics, *metadata.partition_statistics]:
        if statistics.snapshot_id in masks:
            file = ReachableFile(statistics.statistics_path, "statistics", statistics.file_size_in_bytes)
            yield file, masks[statistics.snapshot_id]


def _lists(table: Table, snapshots: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, list[ManifestFile]]]:
    with ThreadPoolExecutor(_READERS, thread_name_prefix="lists") as readers:
        yield from zip(snapshots, readers.map(lambda one: manifests_of(table.io, one), snapshots), strict=True)
