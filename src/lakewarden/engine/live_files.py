"""What is live in a snapshot: its data files, its delete files, and which of those apply to which.

A position delete file may be for one data file or for any in its partition; which rows the latter masks is
only known from its content, so that is read, when asked for, and kept. Deletion vectors are told apart by
the data file they are for: one Puffin file holds those of many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakewarden.engine.faults import told
from lakewarden.engine.manifests import (
    Manifests,
    has_live_files,
    is_deletion_vector,
    manifests_of,
    partition_key,
    referenced_data_file,
)
from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_READERS = 8
Partition = tuple[int, tuple[Any, ...]]  # spec id and values


@dataclass(frozen=True)
class DeleteFile:
    """A live file of deletes: by position, by equality, or a deletion vector."""

    entry: ManifestEntry = field(repr=False)
    manifest: str
    path: str
    bytes: int
    rows: int
    partition: Partition
    sequence: int
    format: str
    only_for: str | None
    is_equality: bool
    is_vector: bool

    @property
    def identity(self) -> str:
        """What tells it apart: a Puffin file holds the vectors of many data files."""
        return f"{self.path}#{self.only_for}" if self.is_vector else self.path

    @property
    def is_guessed(self) -> bool:
        """Whether only a reader of rows can tell what it masks."""
        return self.is_equality or (self.only_for is None and self.format != "parquet")

    def may_apply(self, data: LiveFile) -> bool:
        """Whether, by all that metadata says, it can mask rows of a data file."""
        if self.only_for is not None:
            return self.only_for == data.path and self.sequence >= data.sequence
        if self.is_equality:
            return (self.partition == data.partition or self.is_global) and self.sequence > data.sequence
        if (data.entry.file_sequence_number or 0) > self.sequence:
            return False  # a file that was added later, with rows of before: their positions were other ones
        return self.partition == data.partition and self.sequence >= data.sequence and self._within_bounds(data.path)

    @property
    def is_global(self) -> bool:
        """Equality deletes without a partition are for all. Where every value is null, the spec may be one whose
        fields were all dropped, and it is safer to think so."""
        return self.is_equality and all(value is None for value in self.partition[1])

    def _within_bounds(self, path: str) -> bool:
        """Bounds may be cut short: then the upper one still stands above all that begins with it."""
        from pyiceberg.table.delete_file_index import PATH_FIELD_ID

        file, name = self.entry.data_file, path.encode()
        low, high = (file.lower_bounds or {}).get(PATH_FIELD_ID), (file.upper_bounds or {}).get(PATH_FIELD_ID)
        return (low is None or low <= name) and (high is None or name <= high)


@dataclass(frozen=True)
class LiveFile:
    """A live data file, with all delete files that apply to it."""

    entry: ManifestEntry = field(repr=False)
    manifest: str
    path: str
    bytes: int
    rows: int
    partition: Partition
    sequence: int
    format: str
    deletes: tuple[DeleteFile, ...] = ()

    @property
    def deletes_identity(self) -> frozenset[str]:
        return frozenset(delete.identity for delete in self.deletes)

    def lacks_nan_counts(self, floating: Iterable[int]) -> bool:
        """Whether it has bounds of one of these floating point columns, but no count of NaN.

        Other engines take that to mean that no value is NaN, and skip or delete the file by its bounds.
        """
        file = self.entry.data_file
        bounded = {*(file.lower_bounds or ()), *(file.upper_bounds or ())}
        return any(column in bounded and column not in (file.nan_value_counts or ()) for column in floating)


class SnapshotFiles:
    """The live files of one snapshot."""

    def __init__(self, io: FileIO, manifests: Sequence[ManifestFile], reader: Manifests, about: str) -> None:
        self._io = io
        self._reader = reader
        self._about = about
        self.manifests = [manifest for manifest in manifests if has_live_files(manifest)]

    def opened(self, path: str) -> Any:
        """A stream of one of its files."""
        return self._io.new_input(path).open()

    @cached_property
    def deletes(self) -> tuple[DeleteFile, ...]:
        return tuple(_delete_file(entry, path) for path, entry in self._entries(deletes=True))

    @cached_property
    def data(self) -> tuple[LiveFile, ...]:
        """Every data file, with the deletes that apply to it."""
        return tuple(_with_deletes(self.bare, self.deletes, self.masks)) if self.deletes else self.bare

    @cached_property
    def bare(self) -> tuple[LiveFile, ...]:
        """Every data file, whatever deletes apply to it."""
        return tuple(_live_file(entry, path) for path, entry in self._entries(deletes=False))

    @cached_property
    def by_path(self) -> Mapping[str, LiveFile]:
        found = {file.path: file for file in self.data}
        if len(found) < len(self.data):
            twice = next(path for path, times in Counter(file.path for file in self.data).items() if times > 1)
            raise BrokenTable(
                f"{self._about}: its metadata lists the file {twice} twice, so its rows count twice",
                "Files were added to it twice. Until one of them is taken out, none can be written anew.",
            )
        return found

    @cached_property
    def masks(self) -> Mapping[str, Mapping[str, int]]:
        """For each file of position deletes, how many rows of which data files it masks."""
        known = {d.identity: {d.only_for: d.rows} for d in self.deletes if d.only_for is not None}
        unread = [d for d in self.deletes if d.only_for is None and not d.is_guessed]
        if unread:
            with ThreadPoolExecutor(_READERS, thread_name_prefix="deletes") as readers:
                found = readers.map(self._masked_rows, unread)
                known |= {delete.identity: dict(counts) for delete, counts in zip(unread, found, strict=True)}
        return known

    def _masked_rows(self, delete: DeleteFile) -> Mapping[str, int]:
        return self._reader.masks(delete.path, lambda: masked_rows(self._io, delete.path, self._about))

    def masked(self, file: LiveFile) -> int:
        """Rows of a data file that position deletes mask; a row that two of them name counts twice."""
        return min(sum(self.masks.get(delete.identity, {}).get(file.path, 0) for delete in file.deletes), file.rows)

    def dangling(self, gone: Iterable[str] = ()) -> list[DeleteFile]:
        """Delete files that apply to nothing, once these data files are gone."""
        without = set(gone)
        serving = {delete.identity for file in self.data if file.path not in without for delete in file.deletes}
        return [delete for delete in self.deletes if delete.identity not in serving]

    def _entries(self, deletes: bool) -> Iterator[tuple[str, ManifestEntry]]:
        from pyiceberg.manifest import ManifestContent

        wanted = ManifestContent.DELETES if deletes else ManifestContent.DATA
        chosen = [manifest for manifest in self.manifests if manifest.content == wanted]
        with told(self._about):
            if len(chosen) < 4:
                read: Iterable[tuple[ManifestEntry, ...]] = (self._reader.entries(self._io, m) for m in chosen)
            else:
                with ThreadPoolExecutor(_READERS, thread_name_prefix="manifests") as readers:
                    read = list(readers.map(lambda manifest: self._reader.entries(self._io, manifest), chosen))
            for manifest, entries in zip(chosen, read, strict=True):
                yield from ((manifest.manifest_path, entry) for entry in entries)


class Files:
    """Looks up the live files of snapshots."""

    def __init__(self, reader: Manifests) -> None:
        self.reader = reader

    def of(self, table: Table, snapshot: Snapshot | None) -> SnapshotFiles:
        """What a snapshot holds; nothing for a table that has none yet."""
        about = f"table {'.'.join(table.name())}"
        with told(about):
            manifests = manifests_of(table.io, snapshot) if snapshot is not None else []
        return SnapshotFiles(table.io, manifests, self.reader, about)

    def across(self, table: Table, snapshots: Iterable[Snapshot]) -> tuple[dict[str, LiveFile], dict[str, DeleteFile]]:
        """Every data file and every delete file that one of the snapshots holds, by path; which apply is not told.

        However many snapshots share a manifest, it is read once.
        """
        about = f"table {'.'.join(table.name())}"
        with told(about):
            lists = [manifests_of(table.io, snapshot) for snapshot in snapshots]
        manifests = {manifest.manifest_path: manifest for listed in lists for manifest in listed}
        files = SnapshotFiles(table.io, list(manifests.values()), self.reader, about)
        return {file.path: file for file in files.bare}, {delete.path: delete for delete in files.deletes}


def _with_deletes(
    files: Sequence[LiveFile], deletes: Sequence[DeleteFile], masks: Mapping[str, Mapping[str, int]]
) -> Iterator[LiveFile]:
    for_one: dict[str, list[DeleteFile]] = {}
    for_partition: dict[Partition, list[DeleteFile]] = {}
    for_all = [delete for delete in deletes if delete.is_global]
    for delete in deletes:
        if delete.is_guessed:
            for_partition.setdefault(delete.partition, []).append(delete)
        for path in masks.get(delete.identity, {}):
            for_one.setdefault(path, []).append(delete)
    for file in files:
        near = {d.identity: d for d in (*for_one.get(file.path, ()), *for_partition.get(file.partition, ()), *for_all)}
        applying = tuple(delete for delete in near.values() if delete.may_apply(file))
        yield replace(file, deletes=applying) if applying else file


def _live_file(entry: ManifestEntry, manifest: str) -> LiveFile:
    return LiveFile(**_told(entry, manifest))


def _delete_file(entry: ManifestEntry, manifest: str) -> DeleteFile:
    from pyiceberg.manifest import DataFileContent

    file = entry.data_file
    equality = file.content == DataFileContent.EQUALITY_DELETES
    return DeleteFile(
        **_told(entry, manifest),
        only_for=None if equality else referenced_data_file(file),
        is_equality=equality,
        is_vector=is_deletion_vector(file),
    )


def _told(entry: ManifestEntry, manifest: str) -> dict[str, Any]:
    """What an entry tells of any file."""
    file = entry.data_file
    return {
        "entry": entry,
        "manifest": manifest,
        "path": file.file_path,
        "bytes": file.file_size_in_bytes,
        "rows": file.record_count,
        "partition": (file.spec_id or 0, partition_key(file)),
        "sequence": entry.sequence_number or 0,
        "format": str(file.file_format.value).lower(),
    }


def masked_rows(io: FileIO, path: str, about: str) -> Counter[str]:
    """How many rows of which data files a file of position deletes names; streamed, for it may be large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts: Counter[str] = Counter()
    try:
        with told(about), io.new_input(path).open() as stream:
            file = pq.ParquetFile(stream, read_dictionary=["file_path"], pre_buffer=False)
            for batch in file.iter_batches(columns=["file_path"]):
                for item in batch.column(0).value_counts():
                    counts[item["values"].as_py()] += item["counts"].as_py()
    except pa.ArrowInvalid:  # which may quote what it read
        raise BrokenTable(f"{about}: the delete file {path} cannot be read", "Is it Parquet?") from None
    return counts
