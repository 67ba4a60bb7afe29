"""New files lie within the bounds of the old ones, however those are cut or promoted."""

from __future__ import annotations

import struct
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, UUIDType
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from lakewarden.engine.files.bounds import Bounds, bounds_of
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.errors import BrokenTable, VerificationFailed
from tests.engine.lakes import Lake, lake
from tests.entries import listed

__all__ = ["lake"]

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "rate", DoubleType()),
    NestedField(4, "code", UUIDType()),
)


def file(lower: dict[int, bytes], upper: dict[int, bytes], values: int = 1, nulls: int = 0) -> DataFile:
    counts = dict.fromkeys((1, 2, 3, 4), values)
    return DataFile.from_args(
        lower_bounds=lower,
        upper_bounds=upper,
        value_counts=counts,
        null_value_counts=dict.fromkeys((1, 2, 3, 4), nulls),
    )


def of_longs(*values: int) -> DataFile:
    return file({1: to_bytes(LongType(), min(values))}, {1: to_bytes(LongType(), max(values))})


def of_texts(values: list[str], length: int) -> DataFile:
    """Bounds as writers cut them: the upper one is raised, and left out where that cannot be done."""
    low, high = min(values)[:length], max(values)
    raised = high if len(high) <= length else truncate_upper_bound_text_string(high, length)
    return file({2: low.encode()}, {2: raised.encode()} if raised is not None else {})


def of_uuids(values: list[uuid.UUID], as_java: bool = False) -> DataFile:
    """Bounds of both kinds of writers: Java took UUIDs for pairs of signed numbers."""
    ordered = sorted((value.bytes for value in values), key=struct.Struct(">qq").unpack if as_java else None)
    return file({4: ordered[0]}, {4: ordered[-1]})


def outside(inputs: list[DataFile], outputs: list[DataFile]) -> bool:
    try:
        known = Bounds(SCHEMA)
        for input_ in inputs:
            known.add(input_)
        known.check("table t", outputs)
    except VerificationFailed:
        return True
    return False


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.data())
def test_what_was_there_is_within(values: list[int], data: Any) -> None:
    kept = data.draw(st.lists(st.sampled_from(values), min_size=1))
    assert not outside([of_longs(*values[: len(values) // 2 + 1]), of_longs(*values)], [of_longs(*kept)])


@given(st.lists(st.integers(-1000, 1000), min_size=1), st.integers(1, 10**6))
def test_what_was_not_there_is_found(values: list[int], beyond: int) -> None:
    assert outside([of_longs(*values)], [of_longs(max(values) + beyond)])
    assert outside([of_longs(*values)], [of_longs(min(values) - beyond)])


@example(["\u00bf0"], 4, 1)  # raised, the last character has other bytes throughout
@given(st.lists(st.text(max_size=30), min_size=1), st.sampled_from([1, 4, 16]), st.sampled_from([1, 4, 16]))
def test_texts_cut_at_any_length_are_within(values: list[str], before: int, after: int) -> None:
    assert not outside([of_texts(values, before)], [of_texts(values, after)])


def test_another_text_is_found() -> None:
    assert outside([of_texts(["bern", "chur"], 16)], [of_texts(["basel", "zug, a town"], 16)])


def test_a_promoted_column_is_compared_as_what_it_is_now() -> None:
    old = file(
        {1: struct.pack("<i", -5), 3: struct.pack("<f", 0.5)}, {1: struct.pack("<i", 7), 3: struct.pack("<f", 2)}
    )
    assert not outside([old], [of_longs(-5, 7)])
    assert outside([old], [of_longs(-6)])


def test_a_file_that_says_nothing_leaves_nothing_to_compare() -> None:
    assert not outside([of_longs(1), file({}, {})], [of_longs(100)])


def test_a_file_of_nulls_has_no_bounds_and_is_left_out() -> None:
    assert outside([of_longs(1), file({}, {}, values=3, nulls=3)], [of_longs(100)])


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_is_zero(zero: float) -> None:
    bounds = {3: to_bytes(DoubleType(), 0.0)}
    assert not outside([file(bounds, bounds)], [file({3: to_bytes(DoubleType(), zero)}, bounds)])


@example([uuid.UUID(int=0x80 << 120), uuid.UUID(int=0x7F << 120)], [], True, False, [0])
@example(  # neither order has all of these bounds in it
    [uuid.UUID(int=0x90 << 120), uuid.UUID(int=1 << 120), uuid.UUID(int=5 << 120)],
    [uuid.UUID(int=0x10 << 120), uuid.UUID(int=0x85 << 120)],
    True,
    False,
    [1, 3],
)
@given(
    st.lists(st.uuids(), min_size=1),
    st.lists(st.uuids()),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 1000), min_size=1),
)
def test_uuids_are_within_in_the_order_of_any_writer(
    some: list[uuid.UUID], others: list[uuid.UUID], one: bool, other: bool, picked: list[int]
) -> None:
    inputs = [of_uuids(some, one), *([of_uuids(others, other)] if others else [])]
    values = [*some, *others]
    assert not outside(inputs, [of_uuids([values[number % len(values)] for number in picked])])


def test_a_uuid_that_is_outside_in_both_orders_is_found() -> None:
    low, high, below, above, wrapped = (uuid.UUID(int=n << 120) for n in (0x10, 0x20, 0x05, 0x25, 0x95))
    for beyond in (below, above, wrapped):
        assert outside([of_uuids([low, high])], [of_uuids([low, beyond])])
        assert outside([of_uuids([low, high], as_java=True)], [of_uuids([low, beyond])])
    last = uuid.UUID(int=(0x20 << 120) + 1)
    assert outside([of_uuids([low, high])], [of_uuids([last])])  # they are not cut


def test_uuids_of_a_file_without_bounds_may_be_any() -> None:
    low = uuid.UUID(int=1)
    assert not outside([of_uuids([low]), file({}, {})], [of_uuids([uuid.UUID(int=5)])])
    assert outside([of_uuids([low]), file({}, {}, values=3, nulls=3)], [of_uuids([uuid.UUID(int=5)])])


def test_bounds_are_read_again_for_the_files_that_are_rewritten(lake: Lake) -> None:
    table = lake.create(appends=0)
    for number in range(5):
        table.append(pa.table({"id": [10 * number, 10 * number + 9]}))
    files = Files(Manifests()).of(table, table.current_snapshot()).data
    assert len({file.manifest for file in files}) == 5
    groups = {"most": files[:4], "last": files[4:]}

    found = bounds_of(table, groups)

    for group, others in (("most", "last"), ("last", "most")):
        found[group].check("table t", [listed(file) for file in groups[group]])
        with pytest.raises(VerificationFailed, match="outside the bounds"):
            found[group].check("table t", [listed(file) for file in groups[others]])


def test_a_file_that_its_manifest_does_not_list_has_no_bounds(lake: Lake) -> None:
    table = lake.create(appends=1)
    (file,) = Files(Manifests()).of(table, table.current_snapshot()).data
    with pytest.raises(BrokenTable, match="does not list elsewhere"):
        bounds_of(table, {0: [replace(file, path="elsewhere")]})
