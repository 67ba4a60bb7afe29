"""The schema that each live data file was written with, from metadata; from the file's own footer where that fails.

Metadata knows it by the version that added the file, as long as it exists, or by the manifest that added it. Merging
manifests keeps the first and loses the second; expiry takes the first away. A writer may also have used another schema
than the table had when it committed: the columns that a file has metrics for show that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.base import avro_files
from lakewarden.engine.base.faults import decoding
from lakewarden.engine.files.column_metrics import metrics_modes
from lakewarden.engine.files.manifests import manifests_of, stream_entries

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.storage.storage import StoredFiles

_READERS = 8
KnownBy = Literal["metadata", "footer", "nothing"]


@dataclass(frozen=True)
class WrittenFile:
    """A live data file and the schema that it was written with."""

    path: str
    bytes: int
    rows: int
    schema: Schema | None
    known_by: KnownBy


def written_files(table: Table, snapshot: Snapshot | None, storage: StoredFiles, footers: int) -> list[WrittenFile]:
    """The live data files of a snapshot. At most so many footers are read of files that metadata says too little of."""
    known: list[WrittenFile] = []
    doubtful: list[DataFile] = []
    for file, schema in _claimed(table, snapshot):
        if schema is None:
            doubtful.append(file)
        else:
            known.append(WrittenFile(file.file_path, file.file_size_in_bytes, file.record_count, schema, "metadata"))
    doubtful.sort(key=lambda file: file.file_path)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="footers") as readers:
        found = readers.map(lambda file: _by_footer(storage, file), doubtful[:footers])
        return [*known, *found, *(_unknown(file) for file in doubtful[footers:])]


def _claimed(table: Table, snapshot: Snapshot | None) -> Iterator[tuple[DataFile, Schema | None]]:
    """Each data file with the schema that metadata claims and its metrics do not contradict."""
    from pyiceberg.manifest import ManifestContent

    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    by_version = {
        one.snapshot_id: schemas.get(one.schema_id) for one in table.metadata.snapshots if one.schema_id is not None
    }
    counted = {id for id, mode in metrics_modes(table.metadata).items() if mode != "none"}
    columns: dict[int, frozenset[int]] = {}
    for manifest in manifests_of(table.io, snapshot) if snapshot is not None else ():
        if manifest.content != ManifestContent.DATA:
            continue
        own = cache(partial(_manifest_schema, table, manifest))
        for entry in stream_entries(table.io, manifest):
            schema = _claim(entry, manifest, by_version, own)
            if schema is not None:
                leaves = columns.setdefault(id(schema), frozenset(_leaves(schema)))
                schema = None if _contradicts(entry.data_file, leaves, counted) else schema
            yield entry.data_file, schema


def _claim(
    entry: ManifestEntry,
    manifest: ManifestFile,
    by_version: Mapping[int, Schema | None],
    own: Callable[[], Schema | None],
) -> Schema | None:
    from pyiceberg.manifest import ManifestEntryStatus

    claimed = by_version.get(entry.snapshot_id or 0)
    if claimed is not None:
        return claimed
    added_here = entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == manifest.added_snapshot_id
    return own() if added_here else None


def _manifest_schema(table: Table, manifest: ManifestFile) -> Schema | None:
    """The schema that a manifest was written with."""
    from pyiceberg.schema import Schema

    with decoding(manifest.manifest_path):
        text = avro_files.header_at(table.io, manifest.manifest_path).get("schema")
    try:
        return Schema.model_validate(json.loads(text)) if text else None
    except ValueError:
        return None


def _contradicts(file: DataFile, columns: frozenset[int], counted: set[int]) -> bool:
    """Whether the columns that a file has metrics for cannot be those of a schema."""
    found = {*(file.value_counts or ()), *(file.column_sizes or ())}
    return bool(found) and bool(found - columns or (columns & counted) - found)


def _leaves(schema: Schema) -> Iterator[int]:
    """The columns that a file of a schema has metrics for."""
    from pyiceberg.types import PrimitiveType

    return (id for id in schema.field_ids if isinstance(schema.find_type(id), PrimitiveType))


def _by_footer(storage: StoredFiles, file: DataFile) -> WrittenFile:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    try:
        with storage.open(file.file_path) as stream:
            schema = pyarrow_to_schema(pq.read_schema(stream))
    except (OSError, ValueError, TypeError, pa.ArrowException):  # missing, not Parquet, or without field ids
        return _unknown(file)
    return WrittenFile(file.file_path, file.file_size_in_bytes, file.record_count, schema, "footer")


def _unknown(file: DataFile) -> WrittenFile:
    return WrittenFile(file.file_path, file.file_size_in_bytes, file.record_count, None, "nothing")
