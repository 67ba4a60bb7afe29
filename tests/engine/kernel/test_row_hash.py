"""Hashes of rows are equal for equal values only, however arrays are cut."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.kernel.row_hash import hash_column, hash_rows
from tests.features.compare.oracle import canonical

TYPES: dict[str, tuple[Any, Any]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-3, 3)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, 1.0, -1.0, math.inf])),
    "decimal": (pa.decimal128(20, 2), st.sampled_from([Decimal("0.00"), Decimal("-1.10"), Decimal("123456789012.34")])),
    "text": (pa.string(), st.sampled_from(["", "a", "abcdefgh", "abcdefghi", "abcdefgh\0", "\0", "ä" * 9])),
    "bytes": (pa.large_binary(), st.binary(max_size=17)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "list": (pa.list_(pa.int64()), st.lists(st.one_of(st.none(), st.integers(0, 2)), max_size=3)),
    "lists": (
        pa.large_list(pa.list_(pa.string())),
        st.lists(st.lists(st.sampled_from(["", "a"]), max_size=2), max_size=2),
    ),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": st.one_of(st.none(), st.integers(0, 1)), "y": st.sampled_from([None, "", "a"])}),
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.permutations([("a", 1), ("b", 2), ("c", None)]).flatmap(
            lambda entries: st.integers(0, 3).map(lambda count: entries[:count])
        ),
    ),
}


def hashes(array: Any) -> list[tuple[int, int]]:
    first, second = hash_column(array)
    return list(zip(first.tolist(), second.tolist(), strict=True))


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_equal_hashes_are_equal_values(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    given_values = data.draw(st.lists(st.one_of(st.none(), values), max_size=12))
    array = pa.array(given_values, kind)
    known = [canonical(value) for value in array.to_pylist()]
    found = hashes(array)
    for one in range(len(known)):
        for other in range(one):
            assert (found[one] == found[other]) == (known[one] == known[other]), (known[one], known[other])
    start = data.draw(st.integers(0, len(given_values)))
    assert hashes(array.slice(start)) == found[start:]


def test_dictionaries_count_as_what_they_stand_for() -> None:
    plain = pa.array(["a", None, "b", "a"])
    assert hashes(plain.dictionary_encode()) == hashes(plain)


def test_columns_that_swap_their_values_differ() -> None:
    one = hash_rows(pa.RecordBatch.from_pydict({"a": [1, None], "b": [2, 1]}))
    other = hash_rows(pa.RecordBatch.from_pydict({"a": [2, 1], "b": [1, None]}))
    assert not (one[0] == other[0]).any()


def test_no_two_of_a_million_numbers_collide() -> None:
    for lane in hash_column(pa.array(np.arange(1 << 20))):
        assert len(np.unique(lane)) == 1 << 20
