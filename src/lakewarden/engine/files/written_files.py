"""New Parquet files as manifest entries, from their footers; and the layout that table properties ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.files.column_metrics import metrics_of
from lakewarden.engine.kernel.messages import Bloom, Layout, Verify
from lakewarden.errors import StorageUnavailable, VerificationFailed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import DeleteFile, LiveFile
    from lakewarden.engine.storage.storage import StoredFiles

_MB = 1 << 20
_FOOTER_READERS = 8
_LEVELLED = ("zstd", "gzip", "brotli")  # the others have no levels
_BLOOM = "write.parquet.bloom-filter-enabled.column."
_BLOOM_FPP = "write.parquet.bloom-filter-fpp.column."


@dataclass(frozen=True)
class AddedFile:
    """A new file, its partition spec, and the sequence number of its rows if they come from files that it replaces."""

    file: DataFile = field(repr=False)
    spec_id: int
    sequence: int | None = None


@dataclass(frozen=True)
class Footer:
    """A Parquet footer, read back from storage."""

    path: str
    bytes: int
    metadata: Any


def read_footer(storage: StoredFiles, path: str) -> Footer:
    """Read a new file's footer, which shows that the file is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with storage.open(path) as stream:
            return Footer(path, stream.size(), pq.read_metadata(stream))
    except (OSError, pa.ArrowInvalid) as error:
        raise StorageUnavailable(f"the new file {path} cannot be read back", "Nothing was published.") from error


def read_footers(storage: StoredFiles, paths: Sequence[str]) -> dict[str, Footer]:
    """The footers of many new files, by path."""
    with ThreadPoolExecutor(_FOOTER_READERS, thread_name_prefix="footers") as readers:
        return dict(zip(paths, readers.map(lambda path: read_footer(storage, path), paths), strict=True))


def data_file(table: Table, footer: Footer, nans: Mapping[int, int], inputs: Sequence[LiveFile]) -> DataFile:
    """The entry for a new data file: its own metrics, with the partition of the files it replaces."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    like = inputs[0]
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=footer.path,
        file_format=FileFormat.PARQUET,
        partition=like.record,
        file_size_in_bytes=footer.bytes,
        sort_order_id=like.sort_order if len(inputs) == 1 else None,  # merged rows are no longer sorted
        equality_ids=None,
        key_metadata=None,
        **metrics_of(table.metadata, footer.metadata, nans),
    )
    file.spec_id = like.partition[0]
    return file


def new_data_file(table: Table, footer: Footer, nans: Mapping[int, int]) -> DataFile:
    """The entry for a data file with new rows of an unpartitioned table."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=footer.path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=footer.bytes,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **metrics_of(table.metadata, footer.metadata, nans),
    )
    file.spec_id = table.metadata.default_spec_id
    return file


def delete_file(table: Table, footer: Footer, nans: Mapping[int, int], like: DeleteFile) -> DataFile:
    """The entry for a delete file that replaces another of the same kind, columns and partition."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    file = DataFile.from_args(
        _table_format_version=3,  # delete manifests are written with all v3 fields
        content=DataFileContent.EQUALITY_DELETES if like.is_equality else DataFileContent.POSITION_DELETES,
        file_path=footer.path,
        file_format=FileFormat.PARQUET,
        partition=like.record,
        file_size_in_bytes=footer.bytes,
        sort_order_id=like.sort_order,
        equality_ids=list(like.equality_ids) or None,
        key_metadata=None,
        **metrics_of(table.metadata, footer.metadata, nans),
    )
    file.spec_id = like.partition[0]
    return file


def check_null_counts(about: str, nulls: Mapping[int, int], files: Sequence[DataFile]) -> None:
    """Check that the footers of new files have as many nulls as were read and kept."""
    for field_id, expected in nulls.items():
        counts = [(file.null_value_counts or {}).get(field_id) for file in files]
        if any(count is None for count in counts):  # no metrics for this column
            continue
        found = sum(count or 0 for count in counts)
        if found != expected:
            raise VerificationFailed(
                f"{about}: column {field_id} had {expected} nulls, and the new files have {found}",
                "Nothing was published.",
            )


def target_bytes_of(table: Table) -> int:
    """The size at which the next file of new rows begins."""
    return _number(table.metadata.properties, "write.target-file-size-bytes", 512 * _MB)


def layout_for(
    table: Table, target_bytes: int, verify: Verify, memory_bytes: int, delta_encoding: bool = False
) -> Layout:
    """The layout for new files of a table: its current schema, and its Parquet properties."""
    properties = table.metadata.properties
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    level = properties.get("write.parquet.compression-level", "") if codec in _LEVELLED else ""
    return Layout(
        schema=bytes(plain_schema(table.schema()).serialize()),
        target_bytes=target_bytes,
        row_group_bytes=_number(properties, "write.parquet.row-group-size-bytes", 128 * _MB),
        page_bytes=_number(properties, "write.parquet.page-size-bytes", _MB),
        dictionary_bytes=_number(properties, "write.parquet.dict-size-bytes", 2 * _MB),
        codec=codec,
        level=int(level) if level.lstrip("-").isdigit() else None,
        delta_encoding=delta_encoding,
        bloom=tuple(
            Bloom(
                column=key.removeprefix(_BLOOM),
                false_positives=_share(properties, _BLOOM_FPP + key.removeprefix(_BLOOM), 0.01),
                max_bytes=_number(properties, "write.parquet.bloom-filter-max-bytes", _MB),
            )
            for key, value in sorted(properties.items())
            if key.startswith(_BLOOM) and value.lower() == "true"
        ),
        verify=verify,
        memory_bytes=memory_bytes,
    )


def plain_schema(schema: Schema) -> pa.Schema:
    """A table's Arrow schema with field ids, without the large types that PyIceberg prefers."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.schema([_plain_field(field) for field in schema_to_pyarrow(schema, include_field_ids=True)])


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(place)) for place in range(kind.num_fields)])
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    return kind


def _number(properties: Mapping[str, str], key: str, otherwise: int) -> int:
    text = properties.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else otherwise


def _share(properties: Mapping[str, str], key: str, otherwise: float) -> float:
    try:
        found = float(properties.get(key, ""))
    except ValueError:
        return otherwise
    return found if 0 < found < 1 else otherwise
