"""Rows of files with the types that Spark gives their columns: no value and no NULL moves, wherever a batch is cut."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from lakewarden.engine.kernel.spark_values import as_spark_rows

ONE = UUID(int=1)
STRUCT = pa.struct([("code", pa.binary(16)), ("n", pa.int32())])
ROWS: list[dict[str, Any]] = [
    {"code": ONE.bytes, "one": {"code": ONE.bytes, "n": 1}, "many": [{"code": None, "n": 2}], "by": {"a": -0.0}},
    {"code": None, "one": None, "many": None, "by": None},
    {"code": ONE.bytes, "one": {"code": None, "n": None}, "many": [], "by": {}},
    {"code": None, "one": {"code": ONE.bytes, "n": 4}, "many": [None, {"code": ONE.bytes, "n": 5}], "by": {"b": None}},
]
READ = pa.schema(
    [("code", pa.binary(16)), ("one", STRUCT), ("many", pa.list_(STRUCT)), ("by", pa.map_(pa.string(), pa.float32()))]
)
IN_SPARK = pa.struct([("code", pa.string()), ("n", pa.int64())])
WANTED = pa.schema(
    [("code", pa.string()), ("one", IN_SPARK), ("many", pa.list_(IN_SPARK)), ("by", pa.map_(pa.string(), pa.float64()))]
)


def _as_text(value: Any) -> Any:
    """A value with UUIDs as Spark has them."""
    if isinstance(value, bytes):
        return str(UUID(bytes=value))
    if isinstance(value, dict):
        return {name: _as_text(inner) for name, inner in value.items()}
    return [_as_text(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_rows_of_any_part_of_a_batch(start: int, length: int) -> None:
    rows = [{**row, "by": None if row["by"] is None else list(row["by"].items())} for row in ROWS]
    cut = pa.RecordBatch.from_pylist(rows, schema=READ).slice(start, length)
    found = as_spark_rows(cut, WANTED)
    found.validate(full=True)
    expected = [_as_text(row) for row in ROWS[start : start + length]]
    same = [{**row, "by": None if row["by"] is None else dict(row["by"])} for row in found.to_pylist()]
    assert repr(same) == repr(expected) and found.schema == WANTED
