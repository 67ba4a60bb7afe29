"""Data files with new rows, written by hand as a caller of the commit layer would, and deletes of rows in them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.delete_file_index import PATH_FIELD_ID
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.files.column_metrics import metrics_of
from lakewarden.engine.files.live_files import LiveFile
from lakewarden.engine.files.written_files import AddedFile, plain_schema
from lakewarden.lifecycle.basics import Stamp
from tests.deletes_by_hand import column, commit_deletes
from tests.engine.lakes import STAMP

POSITION_ID = 2147483545
SALES = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "amount", DoubleType(), required=False),
)
"""Sales by city; the amount of every third is not a number."""


def sales(ids: Iterable[int], city: str | None = "Oslo") -> list[dict[str, Any]]:
    return [{"id": id, "city": city, "amount": math.nan if id % 3 == 0 else id / 2} for id in ids]


def new_file(table: Any, rows: list[dict[str, Any]], stamp: Stamp = STAMP, spec_id: int | None = None) -> AddedFile:
    """Write rows of one partition to a file of an action's own, with everything that a manifest says about it."""
    spec = table.metadata.specs()[table.metadata.default_spec_id if spec_id is None else spec_id]
    schema = plain_schema(table.schema())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    content = sink.getvalue()
    path = f"{staging_folder(table, stamp)}/{secrets.token_hex(8)}.parquet"
    with table.io.new_output(path).create() as stream:
        stream.write(content.to_pybytes())
    footer = pq.read_metadata(pa.BufferReader(content))
    names = {field.source_id: table.schema().find_column_name(field.source_id) for field in spec.fields}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*(rows[0][names[field.source_id]] for field in spec.fields)),
        file_size_in_bytes=content.size,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **metrics_of(table.metadata, footer, _nans(table, rows)),
    )
    file.spec_id = spec.spec_id
    return AddedFile(file, spec.spec_id)


def _nans(table: Any, rows: list[dict[str, Any]]) -> Mapping[int, int]:
    floating = [field for field in table.schema().fields if isinstance(field.field_type, DoubleType)]
    return {
        field.field_id: sum(row.get(field.name) is not None and math.isnan(row[field.name]) for row in rows)
        for field in floating
    }


def delete_positions(table: Any, data: LiveFile, positions: Iterable[int]) -> None:
    """Delete rows of a live data file by position, as any writer does that merges on read."""
    commit_deletes(table, position_deletes(table, data, positions))


def position_deletes(table: Any, data: LiveFile, positions: Iterable[int]) -> DataFile:
    """A file that deletes rows of a data file by position."""
    rows = [{"file_path": data.path, "pos": position} for position in positions]
    schema = pa.schema(
        [
            column("file_path", pa.string(), PATH_FIELD_ID, nullable=False),
            column("pos", pa.int64(), POSITION_ID, nullable=False),
        ]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    content = sink.getvalue().to_pybytes()
    path = f"{table.metadata.location}/data/positions-{secrets.token_hex(8)}.parquet"
    with table.io.new_output(path).create() as stream:
        stream.write(content)
    only = {PATH_FIELD_ID: data.path.encode()}
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=data.record,
        record_count=len(rows),
        file_size_in_bytes=len(content),
        lower_bounds=only,
        upper_bounds=only,
    )
    file.spec_id = data.partition[0]
    return file
