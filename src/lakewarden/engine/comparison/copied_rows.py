"""Rows of a version as local files, for versions whose own files the kernel cannot read.

These are versions with equality deletes, with files that are not Parquet or have no field ids, and columns with
default values. The one place that reads rows (`rows/read.py`) knows all of them; what it reads is written to
temporary Parquet files, which are then compared like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.engine.kernel.compare_messages import Part, Side
from lakewarden.engine.kernel.schema import Projection, field_id
from lakewarden.engine.rows.read import version_schema

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType, NestedField

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.comparison.columns import MatchedColumn
    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.engine.rows.read import Rows

_ID = b"PARQUET:field_id"


def reason_to_copy(files: Sequence[LiveFile], versions: Sequence[Resolved]) -> str | None:
    """Why rows must be copied before they can be compared, if so."""
    if any(delete.is_equality for file in files for delete in file.deletes):
        return "they have equality deletes"
    other = next((file.format for file in files if file.format != "parquet"), None)
    if other is not None:
        return f"they have {other.upper()} files"
    fields = (field for version in versions for field in version_schema(version).fields)
    if any(field.initial_default is not None for field in fields):
        return "they have columns with default values"
    return None


def copy(
    rows: Rows, version: Resolved, side: Side, columns: Sequence[MatchedColumn], folder: Path, raw: bool = False
) -> Part:
    """Copy the rows of a version to one file, which is a part of the comparison; `raw` includes hidden rows.

    A column that the version does not have is NULL.
    """
    schema = version_schema(version)
    wanted = {field_id(column.fields[side]) for column in columns}
    names = [field.name for field in schema.fields if field.field_id in wanted]
    read, batches = rows.batches(version, columns=names, raw=raw)
    source = _with_ids(read, {field.name: field for field in schema.fields})
    target = pa.schema([column.fields[side] for column in columns])
    projection = Projection(source, target)
    path = folder / f"{side}.parquet"
    count = 0
    with pq.ParquetWriter(path, target, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(projection.apply(pa.RecordBatch.from_arrays(batch.columns, schema=source)))
            count += batch.num_rows
    return Part(0, str(path), count, path.stat().st_size, "compare", {side: ()})


def _with_ids(read: Any, fields: dict[str, NestedField]) -> Any:
    """The schema of what was read, with field ids."""
    return pa.schema([_field(each, fields[each.name]) for each in read])


def _field(read: Any, known: NestedField) -> Any:
    return pa.field(read.name, _type(read.type, known.field_type), True, {_ID: str(known.field_id).encode()})


def _type(read: Any, known: IcebergType) -> Any:
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(known, StructType):
        inner = {field.name: field for field in known.fields}
        return pa.struct([_field(read.field(place), inner[read.field(place).name]) for place in range(read.num_fields)])
    if isinstance(known, ListType):
        element = pa.field(
            "element", _type(read.value_type, known.element_type), True, {_ID: str(known.element_id).encode()}
        )
        return pa.large_list(element) if pa.types.is_large_list(read) else pa.list_(element)
    if isinstance(known, MapType):
        key = pa.field("key", _type(read.key_type, known.key_type), False, {_ID: str(known.key_id).encode()})
        value = pa.field("value", _type(read.item_type, known.value_type), True, {_ID: str(known.value_id).encode()})
        return pa.map_(key, value)
    return read
