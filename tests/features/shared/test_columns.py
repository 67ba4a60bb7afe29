"""The columns of a schema, as `table show` and `version show` answer with them."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, ListType, LongType, NestedField, StringType

from lakewarden.features.shared.columns import Column, columns_of


def test_each_column_in_order_with_its_iceberg_type() -> None:
    schema = Schema(
        NestedField(4, "id", LongType(), required=True, doc="the order's number"),
        NestedField(2, "price", DecimalType(9, 2)),
        NestedField(7, "tags", ListType(8, StringType(), element_required=False)),
    )
    assert columns_of(schema) == [
        Column(4, "id", "long", True, "the order's number"),
        Column(2, "price", "decimal(9, 2)", False),
        Column(7, "tags", "list<string>", False),
    ]
