"""Which files a table's metadata leads to: whatever is not among them, no version of the table needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.faults import told
from lakewarden.engine.manifests import read_entries

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Kind = Literal["data", "deletes", "manifest", "manifest-list", "statistics", "metadata"]
_READERS = 8
_AT_ONCE = 32  # manifests whose entries may be in memory at one time


@dataclass(frozen=True)
class ReachableFile:
    """A file that metadata leads to; its size where metadata tells it."""

    path: str
    kind: Kind
    bytes: int | None = None


def reachable_files(table: Table, snapshots: Iterable[Snapshot] | None = None) -> Iterator[ReachableFile]:
    """Every file that these snapshots, or all of the table's, lead to; each manifest is read once, none is kept.

    Statistics of those snapshots are among them, and with all snapshots the table's metadata files too. Streamed:
    however many files there are, only some manifests are in memory at a time. A data file that several manifests
    list comes several times.
    """
    chosen = list(table.metadata.snapshots if snapshots is None else snapshots)
    ids = {snapshot.snapshot_id for snapshot in chosen}
    with told(f"table {'.'.join(table.name())}"):
        manifests: dict[str, ManifestFile] = {}
        for snapshot in chosen:
            yield ReachableFile(snapshot.manifest_list, "manifest-list")
            manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
        yield from manifests_and_files(table.io, manifests.values())
        yield from (
            ReachableFile(statistics.statistics_path, "statistics", statistics.file_size_in_bytes)
            for statistics in [*table.metadata.statistics, *table.metadata.partition_statistics]
            if statistics.snapshot_id in ids
        )
        if snapshots is None:
            yield from metadata_files(table)


def manifests_and_files(io: FileIO, manifests: Iterable[ManifestFile]) -> Iterator[ReachableFile]:
    """Manifests, and the live files that they list."""
    waiting = list(manifests)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="reachable") as readers:
        for start in range(0, len(waiting), _AT_ONCE):
            some = waiting[start : start + _AT_ONCE]
            for manifest, entries in zip(some, readers.map(lambda one: read_entries(io, one), some), strict=True):
                yield ReachableFile(manifest.manifest_path, "manifest", manifest.manifest_length)
                kind: Kind = "deletes" if manifest.content else "data"
                for entry in entries:
                    yield ReachableFile(entry.data_file.file_path, kind, entry.data_file.file_size_in_bytes)


def metadata_files(table: Table) -> Iterator[ReachableFile]:
    """The table's own metadata file, and the earlier ones that it has a record of."""
    yield ReachableFile(table.metadata_location, "metadata")
    yield from (ReachableFile(entry.metadata_file, "metadata") for entry in table.metadata.metadata_log)
