"""Parquet files for the kernel's tests, as Iceberg's writers would make them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.engine.kernel.messages import Access, Group, GroupReport, Input, Layout
from lakewarden.engine.kernel.task import rewrite

FIELD_ID = "PARQUET:field_id"


def field(name: str, type_: Any, field_id: int, nullable: bool = True) -> Any:
    return pa.field(name, type_, nullable, {FIELD_ID: str(field_id)})


def numbered(schema: Any) -> Any:
    """A schema with a field id at every level."""
    ids = count(1)

    def number(plain: Any) -> Any:
        identity = next(ids)
        type_ = plain.type
        if pa.types.is_struct(type_):
            type_ = pa.struct([number(child) for child in type_])
        elif pa.types.is_map(type_):
            type_ = pa.map_(number(type_.key_field), number(type_.item_field))
        elif pa.types.is_list(type_):
            type_ = pa.list_(number(type_.value_field))
        return field(plain.name, type_, identity, plain.nullable)

    return pa.schema([number(plain) for plain in schema])


def write(path: Path, table: Any, deletes: Iterable[str] = (), **options: Any) -> Input:
    """A data file, and what the table's metadata would say of it."""
    pq.write_table(table, path, **({"store_schema": False, "compression": "zstd"} | options))
    return Input(str(path), table.num_rows, tuple(deletes))


def delete_file(path: Path, positions: Iterable[tuple[str, int]], **options: Any) -> str:
    """A position delete file."""
    rows = sorted(positions)
    schema = pa.schema(
        [field("file_path", pa.string(), 2147483546, False), field("pos", pa.int64(), 2147483545, False)]
    )
    table = pa.table([[path for path, _ in rows], [at for _, at in rows]], schema=schema)
    pq.write_table(table, path, store_schema=False, **options)
    return str(path)


def layout(schema: Any, **options: Any) -> Layout:
    return Layout(None if schema is None else schema.serialize().to_pybytes(), **options)


def run(folder: Path, inputs: Iterable[Input], look: Layout, **group: Any) -> GroupReport:
    return rewrite(Group(7, tuple(inputs), str(folder / "out"), **group), look, Access())


def done(report: GroupReport) -> Any:
    """The rows of a report's outputs, in order."""
    assert report.failure is None
    assert report.rows_out == report.rows_in - report.rows_masked - report.rows_dropped
    tables = [pq.ParquetFile(output.path).read() for output in report.outputs]
    assert [table.num_rows for table in tables] == [output.rows for output in report.outputs]
    return pa.concat_tables(tables)


def written(folder: Path) -> list[Path]:
    """What is in the folder of outputs."""
    return sorted((folder / "out").glob("*")) if (folder / "out").exists() else []
