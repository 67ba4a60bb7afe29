"""Which columns match, and as what they are compared."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lakewarden.engine.comparison.columns import match


def field(id: int, name: str, type_: IcebergType) -> NestedField:
    return NestedField(id, name, type_, required=False)


OLD = Schema(
    field(1, "id", IntegerType()),
    field(2, "name", StringType()),
    field(3, "price", DecimalType(9, 2)),
    field(4, "place", StructType(field(5, "x", FloatType()), field(6, "gone", StringType()))),
    field(7, "list", ListType(8, IntegerType(), element_required=False)),
    field(9, "map", MapType(10, StringType(), 11, IntegerType(), value_required=False)),
    field(12, "at", TimestampType()),
    field(13, "dropped", StringType()),
)
NEW = Schema(
    field(3, "price", DecimalType(12, 2)),
    field(1, "id", LongType()),
    field(2, "full_name", StringType()),
    field(4, "place", StructType(field(5, "x", DoubleType()), field(20, "more", StringType()))),
    field(7, "list", ListType(8, LongType(), element_required=False)),
    field(9, "map", MapType(10, StringType(), 11, LongType(), value_required=False)),
    field(12, "at", TimestampType()),
    field(21, "dropped", StringType()),
)


def test_by_field_id() -> None:
    found = match(OLD, NEW, by_name=False)
    assert found.names == ["price", "id", "full_name", "place", "list", "map", "at"]
    types = {column.name: column.fields["from"].type for column in found.columns}
    assert types["id"] == pa.int64() and types["price"] == pa.decimal128(12, 2)
    assert types["place"].field("x").type == pa.float64() and types["place"].num_fields == 1
    assert types["list"].value_type == pa.int64() and types["map"].item_type == pa.int64()
    assert found.left_out == {
        "dropped": "only in FROM",
        "place.more": "only in TO",
        "place.gone": "only in FROM",
    }
    for column in found.columns:
        assert column.fields["from"].type == column.fields["to"].type


def test_by_name() -> None:
    other = Schema(
        field(1, "price", DecimalType(20, 4)),
        field(2, "id", StringType()),
        field(3, "at", TimestamptzType()),
        field(4, "dropped", StringType()),
    )
    found = match(OLD, other, by_name=True)
    assert found.names == ["price", "dropped"]
    assert found.columns[0].fields["to"].type == pa.decimal128(20, 4)
    assert found.left_out["id"] == "int and string cannot be compared"
    assert found.left_out["at"] == "timestamp and timestamptz cannot be compared"
    wide = match(Schema(field(1, "d", DecimalType(38, 0))), Schema(field(1, "d", DecimalType(38, 10))), by_name=True)
    assert not wide.columns


def test_ignored_columns() -> None:
    found = match(OLD, NEW, by_name=False, ignored=["id", "place.x"])
    assert "id" not in found.names and "place" not in found.names
    assert found.left_out["id"] == "ignored"
