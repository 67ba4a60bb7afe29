"""Reads manifests, cached by path because they never change, and writes them for commits.

An entry with metrics takes several kilobytes, so few are cached; for live files, what planning needs is cached in a
compact form of a few hundred bytes.

PyIceberg's reader ignores fields of format v3, such as the data file of a deletion vector, and its writer supports data
manifests only. Both gaps are closed here. `live_files.py` works out which deletes apply to which files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lakewarden.engine.base import avro_files
from lakewarden.engine.base.faults import decoding
from lakewarden.engine.base.kept import Kept
from lakewarden.engine.base.support import refuse_unsupported_file

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile, ManifestWriter
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_CODEC: Literal["deflate"] = "deflate"  # supported by every reader
_ENTRIES_KEPT = 128 << 20  # bytes
_FILES_KEPT = 200_000  # about 100 MB
_MASKS_KEPT = 200_000  # entries, one per data file in a delete file
_BLOCK = 100  # entries, a few dozen kilobytes
_DELETED = 2  # the status of an entry
_EQUALITY_IDS = 135
_PARTITIONS = 13  # index of the field in a manifest list entry
_FIRST_ROW_ID, _REFERENCED_DATA_FILE, _CONTENT_OFFSET = 16, 17, 18  # indexes of fields 142 to 144 in a data file


Value = TypeVar("Value")


class Manifests:
    """Reads manifests, with a cache."""

    def __init__(self, entries_kept: int = _ENTRIES_KEPT, files_kept: int = _FILES_KEPT) -> None:
        self._entries: Kept[tuple[ManifestEntry, ...]] = Kept(entries_kept, _bytes_of)
        self._files: Kept[tuple[Any, ...]] = Kept(files_kept, len)
        self._masks: Kept[Mapping[str, int]] = Kept(_MASKS_KEPT, lambda masks: 1 + len(masks))

    def entries(self, io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
        """The live entries of a manifest with all fields, for writing manifests."""
        return self._entries.get(manifest.manifest_path, lambda: tuple(read_entries(io, manifest)))

    def files(
        self, io: FileIO, manifest: ManifestFile, compact: Callable[[Iterable[ManifestEntry], str], Iterable[Value]]
    ) -> tuple[Value, ...]:
        """The live files of a manifest in a compact form, one for data files and one for delete files."""
        path = manifest.manifest_path
        return self._files.get(path, lambda: tuple(compact(stream_entries(io, manifest), path)))

    def masks(self, path: str, read: Callable[[], Mapping[str, int]]) -> Mapping[str, int]:
        """How many rows of which data files a delete file masks; read once, because it never changes."""
        return self._masks.get(path, read)


def _bytes_of(entries: Sequence[ManifestEntry]) -> int:
    """Approximate memory of entries, judged by the first: entries of one manifest are alike."""
    return len(entries) * (_size(entries[0]) if entries else 0)


def _size(value: Any) -> int:
    parts: Iterable[Any] = ()
    if hasattr(value, "_data"):  # a record
        parts = value._data
    elif isinstance(value, Mapping):
        parts = [each for pair in value.items() for each in pair]
    elif isinstance(value, list | tuple):
        parts = value
    return sys.getsizeof(value) + sum(map(_size, parts))


def manifests_of(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot."""
    from pyiceberg.manifest import _manifest_cache

    with decoding(snapshot.manifest_list):
        found = avro_files.manifests_at(io, snapshot.manifest_list)
        return [_manifest_cache.get_or_cache(manifest) for manifest in found]  # most lists share manifests


def read_entries(io: FileIO, manifest: ManifestFile, live: bool = True) -> list[ManifestEntry]:
    """A manifest's entries: the live ones, or all."""
    return list(stream_entries(io, manifest, live))


def stream_entries(io: FileIO, manifest: ManifestFile, live: bool = True) -> Iterator[ManifestEntry]:
    """A manifest's entries one at a time, with inherited sequence numbers."""
    from pyiceberg.manifest import ManifestEntryStatus, _inherit_from_manifest

    for entry in entries_at(io, manifest.manifest_path):
        if not live or entry.status != ManifestEntryStatus.DELETED:
            yield _inherit_from_manifest(entry, manifest)


def entries_at(io: FileIO, path: str) -> Iterator[ManifestEntry]:
    """The entries of the manifest at a path as written, without inherited values."""
    with decoding(path):
        for entry in avro_files.entries_at(io, path):
            refuse_unsupported_file(entry.data_file, path)
            yield entry


@dataclass(frozen=True, slots=True)
class ListedFile:
    """What a manifest says of a live file, without its counts."""

    path: str
    partition: Sequence[Any]
    rows: int
    size: int
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def listed_files(io: FileIO, manifest: ManifestFile) -> Iterator[ListedFile]:
    """The live files of a manifest, read in half the time of its entries."""
    with decoding(manifest.manifest_path):
        for status, path, partition, rows, size, lower, upper in avro_files.facts_at(io, manifest.manifest_path):
            if status != _DELETED:
                yield ListedFile(path, partition, rows, size, lower or {}, upper or {})


def first_row_ids(io: FileIO, manifest: str, first: int | None) -> Iterator[tuple[str, int | None]]:
    """The live data files of a manifest, each with the id of its first row; None for files without row lineage.

    Files that have no id of their own follow each other, from the manifest's first id on.
    """
    from pyiceberg.manifest import ManifestEntryStatus

    for entry in entries_at(io, manifest):
        if entry.status == ManifestEntryStatus.DELETED:
            continue
        file = entry.data_file
        fields = file._data
        own = fields[_FIRST_ROW_ID] if first is not None and len(fields) > _FIRST_ROW_ID else None
        yield file.file_path, first if own is None else own
        if first is not None and own is None:
            first += file.record_count


def referenced_data_file(file: DataFile) -> str | None:
    """The one data file that a delete file applies to; None if there may be several."""
    from pyiceberg.table.delete_file_index import _referenced_data_file_path

    fields = file._data
    referenced = fields[_REFERENCED_DATA_FILE] if len(fields) > _REFERENCED_DATA_FILE else None
    return referenced or _referenced_data_file_path(file)


def is_deletion_vector(file: DataFile) -> bool:
    fields = file._data
    return len(fields) > _CONTENT_OFFSET and fields[_CONTENT_OFFSET] is not None


def holds_data(manifest: ManifestFile) -> bool:
    """Whether a manifest lists data files, not delete files."""
    from pyiceberg.manifest import ManifestContent

    return manifest.content == ManifestContent.DATA


def has_live_files(manifest: ManifestFile) -> bool:
    """Manifests that only list removed files are of no use to later snapshots."""
    counts = (manifest.added_files_count, manifest.existing_files_count)
    return any(count is None or count > 0 for count in counts)


def partition_key(file: DataFile) -> tuple[Any, ...]:
    """A file's partition values, comparable and hashable."""
    return tuple(_comparable(file.partition[place]) for place in range(len(file.partition)))


def _comparable(value: Any) -> Any:
    """In Iceberg's partitions NaN equals itself and 0.0 differs from -0.0, unlike in Python."""
    return str(value) if isinstance(value, float) and (value != value or value == 0) else value


def write_entries(
    metadata: TableMetadata,
    io: FileIO,
    path: str,
    spec_id: int,
    snapshot_id: int,
    deletes: bool = False,
    *,
    added: Iterable[ManifestEntry] = (),
    existing: Iterable[ManifestEntry] = (),
    removed: Iterable[ManifestEntry] = (),
) -> ManifestFile:
    """Write one manifest of data files or of delete files."""
    spec = metadata.specs()[spec_id]
    writer = _writer(metadata, io, path, spec, snapshot_id, deletes)
    with writer, _in_blocks(writer._writer):
        for entry in added:
            writer.add(entry)
        for entry in existing:
            writer.existing(entry)
        for entry in removed:
            writer.delete(entry)
    return _without_misleading_bounds(writer.to_manifest_file(), schema_for_spec(metadata, spec), spec)


@contextmanager
def _in_blocks(out: Any) -> Iterator[None]:
    """Write many entries to a block. PyIceberg gives each a block of its own, which is larger and slower to read."""
    write, waiting = out.write_block, list[Any]()

    def add(entries: list[Any]) -> None:
        waiting.extend(entries)
        if len(waiting) >= _BLOCK:
            write(waiting)
            waiting.clear()

    out.write_block = add
    yield
    if waiting:
        write(waiting)


def _writer(
    metadata: TableMetadata, io: FileIO, path: str, spec: PartitionSpec, snapshot_id: int, deletes: bool
) -> ManifestWriter:
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestWriterV2, write_manifest

    class DeleteManifestWriter(ManifestWriterV2):
        """PyIceberg's writer for format v2, saying that what it lists are delete files, and all that they tell."""

        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

        def new_writer(self) -> AvroOutputFile[ManifestEntry]:
            return AvroOutputFile[ManifestEntry](
                output_file=self._output_file,
                file_schema=_of_deletes(self._with_partition(3), without=(142, 144, 145)),  # not in v2
                record_schema=_of_deletes(self._with_partition(3)),
                schema_name="manifest_entry",
                metadata=self._meta,
            )

    schema, file = schema_for_spec(metadata, spec), io.new_output(path)
    if deletes:
        return DeleteManifestWriter(spec, schema, file, snapshot_id, _CODEC)
    return write_manifest(metadata.format_version, spec, schema, file, snapshot_id, _CODEC)


def _without_misleading_bounds(manifest: ManifestFile, schema: Schema, spec: PartitionSpec) -> ManifestFile:
    """Omit the summaries of UUID partitions if they may be wrong for Java, which compares signed numbers.

    Java would skip the manifest. A single bound cannot be omitted: Java would take all values to be null.
    """
    from pyiceberg.types import UUIDType

    kinds = spec.partition_type(schema).fields
    for kind, summary in zip(kinds, manifest.partitions or (), strict=False):
        low, high = summary.lower_bound, summary.upper_bound
        if isinstance(kind.field_type, UUIDType) and low != high:
            manifest[_PARTITIONS] = None
            break
    return manifest


def _of_deletes(entry: Schema, without: Sequence[int] = ()) -> Schema:
    """The entry schema with equality ids as integers, as in Java, which fails on PyIceberg's longs."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, ListType, NestedField, StructType

    def of_file(field: NestedField) -> NestedField:
        if field.field_id != _EQUALITY_IDS:
            return field
        ids = ListType(element_id=_EQUALITY_IDS + 1, element_type=IntegerType(), element_required=True)
        return NestedField(field.field_id, field.name, ids, required=False)

    def of_entry(field: NestedField) -> NestedField:
        if not isinstance(field.field_type, StructType):
            return field
        kept = [of_file(inner) for inner in field.field_type.fields if inner.field_id not in without]
        return NestedField(field.field_id, field.name, StructType(*kept), required=field.required)

    return Schema(*(of_entry(field) for field in entry.fields))


def schema_for_spec(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The newest schema with all columns of a partition spec: columns of old specs may have been dropped."""
    wanted = {field.source_id for field in spec.fields}
    current_first: Sequence[Schema] = [metadata.schema(), *reversed(metadata.schemas)]
    for schema in current_first:
        if wanted <= schema.field_ids:
            return schema
    return metadata.schema()
