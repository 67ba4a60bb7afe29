"""Ranges of one column that is sorted in this process: the same as those that Spark's counts give."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.sql.batches import _divided
from lakewarden.engine.sql.sorted_column import SortedColumn
from lakewarden.engine.sql.tuples import order

SOME = st.lists(st.none() | st.integers(-3, 12), max_size=60)
DISTINCT = st.lists(st.integers(-99, 99), max_size=60, unique=True)


@given(SOME | DISTINCT, st.integers(1, 9), st.none() | st.integers(-3, 12))
def test_ranges_are_those_of_sorted_tuples(values: list[int | None], size: int, after: int | None) -> None:
    lower = None if after is None else (after,)
    left = [(value,) for value in values if after is None or (value is not None and value > after)]
    tuples = [(one, count) for one, count in sorted(Counter(left).items(), key=lambda each: order(each[0]))]
    columns = [pa.array(values[start : start + 7], pa.int64()) for start in range(0, len(values), 7)]
    assert SortedColumn.of(columns, "long", lower).ranges(lower, size) == _divided(tuples, lower, size)


@pytest.mark.parametrize(
    ("kind", "type_", "values"),
    [
        ("date", pa.date32(), [date(2026, 1, 2), date(1969, 1, 1)]),
        ("timestamptz", pa.timestamp("us", "UTC"), [datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)]),
        ("timestamp", pa.timestamp("us"), [datetime(2026, 1, 2)]),
        ("int", pa.int32(), [5, -5]),
    ],
)
def test_values_keep_their_types(kind: str, type_: pa.DataType, values: list[Any]) -> None:
    found = SortedColumn.of([pa.array(values, type_)], kind, None)
    assert [each.upper for each in found.ranges(None, 1)] == [(value,) for value in sorted(values)]
    first = (min(values),)
    assert len(SortedColumn.of([pa.array(values, type_)], kind, first).ranges(first, 1)) == len(values) - 1
