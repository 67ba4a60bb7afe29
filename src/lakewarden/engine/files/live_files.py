"""The live files of a snapshot: data files, delete files, and which deletes apply to which data files.

A position delete file may apply to one data file or to any in its partition. In the second case only its content shows
which rows it masks, so it is read on demand and cached. Deletion vectors are identified by their data file, because one
Puffin file holds many.

A table may have millions of files, so these values hold what planning needs and no column metrics: `bounds.py` reads
bounds again for files that are rewritten, and writers read entries again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakewarden.engine.base.faults import translating
from lakewarden.engine.files.manifests import (
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
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record

_READERS = 8
Partition = tuple[int, tuple[Any, ...]]  # spec id and values
Bound = bytes
Value = TypeVar("Value")
Found = TypeVar("Found", "LiveFile", "DeleteFile")


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A live delete file: position deletes, equality deletes, or a deletion vector."""

    manifest: str
    path: str
    bytes: int
    rows: int
    partition: Partition
    record: Record = field(repr=False)
    """The partition values as manifests store them."""
    sequence: int
    format: str
    only_for: str | None
    is_equality: bool
    is_vector: bool
    lowest: Bound | None = None
    """Bounds of the data file paths in it, if there may be several; they may be truncated."""
    highest: Bound | None = None
    equality_ids: tuple[int, ...] = ()
    sort_order: int | None = None

    @property
    def identity(self) -> str:
        """A unique name: a Puffin file holds the vectors of many data files."""
        return f"{self.path}#{self.only_for}" if self.is_vector else self.path

    @property
    def is_guessed(self) -> bool:
        """Whether metadata does not show which rows it masks."""
        return self.is_equality or (self.only_for is None and self.format != "parquet")

    def may_apply(self, data: LiveFile) -> bool:
        """Whether it can mask rows of a data file, according to the metadata."""
        if self.only_for is not None:
            return self.only_for == data.path and self.sequence >= data.sequence
        if self.is_equality:
            return (self.partition == data.partition or self.is_global) and self.sequence > data.sequence
        if data.added_in > self.sequence:
            return False  # added later with older rows, whose positions differed
        return self.partition == data.partition and self.sequence >= data.sequence and self._within_bounds(data.path)

    @property
    def is_global(self) -> bool:
        """Whether it is an equality delete without a partition, which applies everywhere.

        If all values are null, the spec may be one whose fields were all dropped, so this is assumed to be safe.
        """
        return self.is_equality and all(value is None for value in self.partition[1])

    def _within_bounds(self, path: str) -> bool:
        """A truncated upper bound is still above every path that begins with it."""
        name = path.encode()
        return (self.lowest is None or self.lowest <= name) and (self.highest is None or name <= self.highest)


_Bytes = bytes  # the class below has a field of this name


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live data file with all delete files that apply to it."""

    manifest: str
    path: str
    bytes: int
    rows: int
    partition: Partition
    record: Record = field(repr=False)
    """The partition values as manifests store them."""
    sequence: int
    format: str
    deletes: tuple[DeleteFile, ...] = ()
    added_in: int = 0
    """The sequence number of the commit that added it; its rows may be older."""
    added_by: int | None = None
    """The snapshot of that commit."""
    sort_order: int | None = None
    row_groups: int = 1
    without_nan_counts: frozenset[int] = frozenset()
    """Columns with bounds but no NaN count; most types have no NaN."""
    starts: _Bytes = field(default=b"", repr=False)
    """How the lower bounds of its first columns begin: a copy of a file with a few rows changed mostly has the same."""

    @property
    def deletes_identity(self) -> frozenset[str]:
        return frozenset(delete.identity for delete in self.deletes)

    def lacks_nan_counts(self, floating: Iterable[int]) -> bool:
        """Whether one of these floating point columns has bounds but no NaN count.

        Other engines take that to mean that no value is NaN, and skip or delete the file by its bounds.
        """
        return not self.without_nan_counts.isdisjoint(floating)


class SnapshotFiles:
    """The live files of one snapshot."""

    def __init__(self, io: FileIO, manifests: Sequence[ManifestFile], reader: Manifests, about: str) -> None:
        self._io = io
        self._reader = reader
        self._about = about
        self._shared = _Shared()
        self.manifests = [manifest for manifest in manifests if has_live_files(manifest)]

    def opened(self, path: str) -> Any:
        return self._io.new_input(path).open()

    @cached_property
    def deletes(self) -> tuple[DeleteFile, ...]:
        return tuple(self._listed(_delete_files, deletes=True))

    @cached_property
    def data(self) -> tuple[LiveFile, ...]:
        """All data files, with the deletes that apply to each."""
        return tuple(_with_deletes(self.bare, self.deletes, self.masks)) if self.deletes else self.bare

    @cached_property
    def bare(self) -> tuple[LiveFile, ...]:
        """All data files, without deletes."""
        return tuple(self._listed(_live_files, deletes=False))

    @cached_property
    def by_path(self) -> Mapping[str, LiveFile]:
        found = {file.path: file for file in self.data}
        if len(found) < len(self.data):
            twice = next(path for path, times in Counter(file.path for file in self.data).items() if times > 1)
            raise BrokenTable(
                f"{self._about}: its metadata lists the file {twice} twice, so its rows count twice",
                "The file was added twice. Remove one of the entries before rewriting files.",
            )
        return found

    @cached_property
    def masks(self) -> Mapping[str, Mapping[str, int]]:
        """For each position delete file, how many rows of which data files it masks."""
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
        """The rows of a data file that position deletes mask; a row in two delete files counts twice."""
        return min(sum(self.masks.get(delete.identity, {}).get(file.path, 0) for delete in file.deletes), file.rows)

    def dangling(self, gone: Iterable[str] = ()) -> list[DeleteFile]:
        """Delete files that apply to nothing, once these data files are gone."""
        without = set(gone)
        serving = {delete.identity for file in self.data if file.path not in without for delete in file.deletes}
        return [delete for delete in self.deletes if delete.identity not in serving]

    def _listed(
        self, compact: Callable[[_Shared, Iterable[ManifestEntry], str], Iterable[Found]], deletes: bool
    ) -> Iterator[Found]:
        from pyiceberg.manifest import ManifestContent

        wanted = ManifestContent.DELETES if deletes else ManifestContent.DATA
        chosen = [manifest for manifest in self.manifests if manifest.content == wanted]

        def read(manifest: ManifestFile) -> tuple[Found, ...]:
            return self._reader.files(self._io, manifest, partial(compact, self._shared))

        with translating(self._about):
            if len(chosen) < 4:
                yield from (file for manifest in chosen for file in read(manifest))
                return
            with ThreadPoolExecutor(_READERS, thread_name_prefix="manifests") as readers:
                yield from (file for files in readers.map(read, chosen) for file in files)


class Files:
    """Looks up the live files of snapshots."""

    def __init__(self, reader: Manifests) -> None:
        self.reader = reader

    def of(self, table: Table, snapshot: Snapshot | None) -> SnapshotFiles:
        """The live files of a snapshot; none for a table without snapshots."""
        about = f"table {'.'.join(table.name())}"
        with translating(about):
            manifests = manifests_of(table.io, snapshot) if snapshot is not None else []
        return SnapshotFiles(table.io, manifests, self.reader, about)

    def across(self, table: Table, snapshots: Iterable[Snapshot]) -> tuple[dict[str, LiveFile], dict[str, DeleteFile]]:
        """All data files and delete files of several snapshots, by path; shared manifests are read once."""
        about = f"table {'.'.join(table.name())}"
        with translating(about):
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


def _live_files(shared: _Shared, entries: Iterable[ManifestEntry], manifest: str) -> Iterator[LiveFile]:
    for entry in entries:
        file = entry.data_file
        partition, record = shared.partition(file)
        bounded = frozenset((*(file.lower_bounds or ()), *(file.upper_bounds or ())))
        yield LiveFile(
            manifest=manifest,
            path=file.file_path,
            bytes=file.file_size_in_bytes,
            rows=file.record_count,
            partition=partition,
            record=record,
            sequence=shared.of(entry.sequence_number or 0),
            format=_format(file),
            added_in=shared.of(entry.file_sequence_number or 0),
            added_by=shared.of(entry.snapshot_id),
            sort_order=file.sort_order_id,
            row_groups=len(file.split_offsets or ()) or 1,
            without_nan_counts=shared.of(bounded.difference(file.nan_value_counts or ())),
            starts=b"".join(bound[:8] for _, bound in sorted((file.lower_bounds or {}).items())[:4]),
        )


def _delete_files(shared: _Shared, entries: Iterable[ManifestEntry], manifest: str) -> Iterator[DeleteFile]:
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table.delete_file_index import PATH_FIELD_ID

    for entry in entries:
        file = entry.data_file
        partition, record = shared.partition(file)
        equality = file.content == DataFileContent.EQUALITY_DELETES
        only_for = None if equality else referenced_data_file(file)
        may_name_several = not equality and only_for is None
        yield DeleteFile(
            manifest=manifest,
            path=file.file_path,
            bytes=file.file_size_in_bytes,
            rows=file.record_count,
            partition=partition,
            record=record,
            sequence=shared.of(entry.sequence_number or 0),
            format=_format(file),
            only_for=only_for,
            is_equality=equality,
            is_vector=is_deletion_vector(file),
            lowest=(file.lower_bounds or {}).get(PATH_FIELD_ID) if may_name_several else None,
            highest=(file.upper_bounds or {}).get(PATH_FIELD_ID) if may_name_several else None,
            equality_ids=shared.of(tuple(file.equality_ids or ())),
            sort_order=file.sort_order_id,
        )


class _Shared:
    """Interned values of one table, where equal partition values of one spec have the same type and encoding."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._partitions: dict[Partition, tuple[Partition, Record]] = {}

    def of(self, value: Value) -> Value:
        kept: Value = self._values.setdefault(value, value)
        return kept

    def partition(self, file: DataFile) -> tuple[Partition, Record]:
        """A file's partition, as a comparable key and as stored."""
        partition = (file.spec_id or 0, partition_key(file))
        return self._partitions.setdefault(partition, (partition, file.partition))


def _format(file: DataFile) -> str:
    return sys.intern(str(file.file_format.value).lower())


def masked_rows(io: FileIO, path: str, about: str) -> Counter[str]:
    """How many rows of which data files a position delete file masks; streamed, because it may be large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts: Counter[str] = Counter()
    try:
        with translating(about), io.new_input(path).open() as stream:
            file = pq.ParquetFile(stream, read_dictionary=["file_path"], pre_buffer=False)
            for batch in file.iter_batches(columns=["file_path"]):
                for item in batch.column(0).value_counts():
                    counts[item["values"].as_py()] += item["counts"].as_py()
    except pa.ArrowInvalid:  # its message may quote values
        raise BrokenTable(
            f"{about}: the delete file {path} cannot be read", "Check that it is a Parquet file."
        ) from None
    return counts
