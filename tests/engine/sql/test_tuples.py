"""Tuples of checkpoint columns: order, and JSON. How Spark compares them is tested with `backfill run`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from lakewarden.engine.sql.tuples import TupleColumns, is_after, order
from lakewarden.errors import BadValue, ColumnNotFound

VALUES = {
    "n": (LongType(), 5),
    "s": (StringType(), "it's"),
    "b": (BooleanType(), True),
    "d": (DoubleType(), float("inf")),
    "day": (DateType(), date(2026, 1, 2)),
    "at": (TimestamptzType(), datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)),
    "local": (TimestampType(), datetime(2026, 1, 2, 3, 4)),
    "exact": (DecimalType(9, 2), Decimal("1.50")),
    "raw": (BinaryType(), b"\x00\xff"),
}
SCHEMA = Schema(*(NestedField(place, name, kind) for place, (name, (kind, _)) in enumerate(VALUES.items(), start=1)))
COLUMNS = TupleColumns.of(SCHEMA, list(VALUES), "shop.s")


def test_tuples_survive_json() -> None:
    values = tuple(value for _, value in VALUES.values())
    assert COLUMNS.load(COLUMNS.dump(values)) == values
    nothing = (None,) * len(VALUES)
    assert COLUMNS.load(COLUMNS.dump(nothing)) == nothing


def test_they_are_ordered_as_spark_sorts_them() -> None:
    nan = float("nan")
    tuples = [(None, None), (None, 1.0), (1, None), (1, 5.0), (1, nan), (2, None)]
    keys = [order(one) for one in tuples]
    assert keys == sorted(set(keys))
    assert is_after((1, nan), (1, 5.0)) and not is_after((1, nan), (1, nan))
    assert is_after((None, None), None) and not is_after(None, None)


def test_what_people_write() -> None:
    columns = TupleColumns.of(SCHEMA, ["AT", "n"], "shop.s")
    assert columns.names == ("at", "n")
    assert columns.given({"n": 3, "AT": "2026-01-02 00:00:00"}) == (datetime(2026, 1, 2, tzinfo=UTC), 3)
    assert columns.given({}) is None
    with pytest.raises(BadValue, match="does not fit the types timestamptz, long"):
        columns.given({"n": 3, "AT": "yesterday"})


def test_columns_that_do_not_exist_or_have_no_order_are_refused() -> None:
    with pytest.raises(ColumnNotFound, match=r"has no column dayy. Did you mean day\?"):
        TupleColumns.of(SCHEMA, ["dayy"], "shop.s")
    listed = Schema(NestedField(1, "all", ListType(2, LongType())))
    with pytest.raises(BadValue, match="is of type list<long>"):
        TupleColumns.of(listed, ["all"], "shop.s")
