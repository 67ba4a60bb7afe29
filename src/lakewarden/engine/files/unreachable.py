"""Which files a table no longer needs, now or after expiry: worked out from metadata, without listing storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import is_below, same_place
from lakewarden.engine.files.manifests import manifests_of
from lakewarden.engine.files.reachable import ReachableFile, manifests_and_files, own_places, reachable_files
from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_READERS = 8


@dataclass(frozen=True)
class Unreachable:
    """Files that only the expiring snapshots reference, and the size of the rest."""

    files: tuple[ReachableFile, ...]
    elsewhere: int
    """The number of such files outside the table's own folders: another table may own them."""
    bytes_kept: int
    """The total size of the data, delete and manifest files of the remaining snapshots."""
    unreadable: int = 0
    """Unreadable manifests and lists of expiring snapshots; files that only they list are missing here."""


def unreachable_after(table: Table, going: Iterable[int]) -> Unreachable:
    """What becomes unreachable once these snapshots are gone."""
    gone, metadata = set(going), table.metadata
    leaving = [s for s in metadata.snapshots if s.snapshot_id in gone]
    staying = [s for s in metadata.snapshots if s.snapshot_id not in gone]
    with translating(f"table {'.'.join(table.name())}"):
        kept, unreadable = _manifests(table, staying), list[str]()
        of_leaving = _manifests(table, leaving, unreadable)
        only_theirs = [manifest for path, manifest in of_leaving.items() if path not in kept]
        files = {same_place(file.path): file for file in manifests_and_files(table.io, only_theirs, unreadable)}
        needed: dict[int, int] = {}  # by location digest: several manifests may list a file
        for file in manifests_and_files(table.io, kept.values()):
            place = same_place(file.path)
            files.pop(place, None)
            needed[hash(place)] = file.bytes or 0
        shared = {s.manifest_list for s in staying}
        lists = [ReachableFile(s.manifest_list, "manifest-list") for s in leaving if s.manifest_list not in shared]
    statistics_files = [*metadata.statistics, *metadata.partition_statistics]
    still = {same_place(s.statistics_path) for s in statistics_files if s.snapshot_id not in gone}
    statistics = [
        ReachableFile(s.statistics_path, "statistics", s.file_size_in_bytes)
        for s in statistics_files
        if s.snapshot_id in gone and same_place(s.statistics_path) not in still
    ]
    all_files = [*files.values(), *lists, *statistics]
    own = [file for file in all_files if is_own(table, file.path)]
    return Unreachable(tuple(own), len(all_files) - len(own), sum(needed.values()), len(unreadable))


def _manifests(
    table: Table, snapshots: Sequence[Snapshot], unreadable: list[str] | None = None
) -> dict[str, ManifestFile]:
    """All manifests of snapshots; their lists are read by several threads, because there may be thousands.

    With `unreadable`, damaged lists are collected there.
    """

    def read(snapshot: Snapshot) -> list[ManifestFile]:
        try:
            return manifests_of(table.io, snapshot)
        except BrokenTable:
            if unreadable is None:
                raise
            unreadable.append(snapshot.manifest_list)
            return []

    with ThreadPoolExecutor(_READERS, thread_name_prefix="lists") as readers:
        lists = readers.map(read, snapshots)
        return {manifest.manifest_path: manifest for manifests in lists for manifest in manifests}


def still_unreachable(table: Table, paths: Sequence[str]) -> list[str]:
    """Which of these files no snapshot references, by the current metadata; the metadata file itself is excluded."""
    left = {same_place(path): path for path in paths}
    left.pop(same_place(table.metadata_location), None)
    for file in reachable_files(table, table.metadata.snapshots):
        left.pop(same_place(file.path), None)
        if not left:
            break
    return list(left.values())


def is_own(table: Table, path: str) -> bool:
    """Whether a file is in one of the table's own folders."""
    return any(is_below(path, place) for place in own_places(table))
