"""What each manifest of a table lists, as far as a cleansing needs it; read once, however many snapshots share it.

Cached by path over all commit attempts, because manifests never change. Of each listed file only a digest of its
location is kept, so that a table with millions of files fits into memory.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.commit.new_snapshot import count
from lakewarden.engine.files.manifests import Manifests, manifests_of, partition_key, read_entries

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table

    from lakewarden.engine.history.carried_deletes import CarriedDeletes
    from lakewarden.engine.history.replacement import Cleansing

_READERS = 8


@dataclass(frozen=True)
class Listed:
    """What is known of one manifest."""

    is_dirty: bool
    """Whether it lists a replaced file, live or removed, or deletes for one."""
    has_removed: bool
    """Whether it also lists removed files."""
    counts: Counter[str] = field(repr=False)
    """Of its live files, as snapshot summaries count them."""
    places: array[int] = field(repr=False)
    """Digests of the locations of its live files."""
    partitions: frozenset[int] = field(repr=False)
    """Digests of partitions: of remaining data files, or of those that deletes apply to."""
    obsolete: str | None = None
    """One of its live files that has no replacement, if there is one."""


class Survey:
    """All manifests of a table that were read so far."""

    def __init__(self, change: Cleansing, carried: CarriedDeletes, reader: Manifests) -> None:
        self._change, self._carried, self._reader = change, carried, reader
        self._replaced = frozenset({*change.replacements, *change.obsolete})
        self._known: dict[str, Listed] = {}
        self._lists: dict[str, list[ManifestFile]] = {}

    def of(self, table: Table) -> dict[int, list[ManifestFile]]:
        """The manifests of every snapshot of a table, by snapshot id; all have been read then."""
        about = f"table {'.'.join(table.name())}"
        with translating(about), ThreadPoolExecutor(_READERS, thread_name_prefix="survey") as readers:
            unread = [s for s in table.metadata.snapshots if s.manifest_list not in self._lists]
            found = readers.map(lambda snapshot: manifests_of(table.io, snapshot), unread)
            self._lists |= {s.manifest_list: manifests for s, manifests in zip(unread, found, strict=True)}
            lists = {s.snapshot_id: self._lists[s.manifest_list] for s in table.metadata.snapshots}
            new = {m.manifest_path: m for manifests in lists.values() for m in manifests}
            missing = [manifest for path, manifest in new.items() if path not in self._known]
            looked = readers.map(lambda manifest: self._look(table.io, manifest), missing)
            self._known |= {m.manifest_path: listed for m, listed in zip(missing, looked, strict=True)}
        return lists

    def __getitem__(self, manifest: ManifestFile) -> Listed:
        return self._known[manifest.manifest_path]

    def _look(self, io: FileIO, manifest: ManifestFile) -> Listed:
        from pyiceberg.manifest import ManifestEntryStatus

        removed: list[ManifestEntry] = []
        if manifest.deleted_files_count == 0:
            live: Iterable[ManifestEntry] = self._reader.entries(io, manifest)
        else:
            entries = read_entries(io, manifest, live=False)
            live = [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
            removed = [entry for entry in entries if entry.status == ManifestEntryStatus.DELETED]
        counts, places, obsolete, is_dirty = Counter[str](), array("q"), None, False
        partitions: set[int] = set()
        for entry in live:
            count(counts, entry.data_file)
            if not self._goes(entry.data_file) and not is_for_all(entry.data_file):
                partitions.add(partition_of(entry.data_file))
            places.append(place_of(entry.data_file.file_path))
            if entry.data_file.file_path in self._change.obsolete:
                obsolete = entry.data_file.file_path
            is_dirty = is_dirty or self._is_dirty(io, entry)
        is_dirty = is_dirty or any(self._is_dirty(io, entry) for entry in removed)
        return Listed(is_dirty, bool(removed), counts, places, frozenset(partitions), obsolete)

    def _goes(self, file: DataFile) -> bool:
        replacement = self._change.replacements.get(file.file_path)
        return file.file_path in self._change.obsolete or (replacement is not None and replacement.file is None)

    def _is_dirty(self, io: FileIO, entry: ManifestEntry) -> bool:
        return entry.data_file.file_path in self._replaced or self._carried.concerns(io, entry)


def place_of(path: str) -> int:
    """A digest of a file's location, however it is spelled."""
    return hash(same_place(path))


def partition_of(file: DataFile) -> int:
    """A digest of a file's partition: spec and values."""
    return hash((file.spec_id or 0, partition_key(file)))


def is_for_all(file: DataFile) -> bool:
    """Whether equality deletes apply to all partitions; see `DeleteFile.is_global`."""
    from pyiceberg.manifest import DataFileContent

    return file.content == DataFileContent.EQUALITY_DELETES and all(value is None for value in partition_key(file))
