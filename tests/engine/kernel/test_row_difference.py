"""The multiset difference of rows by their hashes, and the exchange by bucket."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.kernel import row_difference
from lakewarden.engine.kernel.row_difference import HashedRows, repeated, settled

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=30)


@given(rows=rows, buckets=st.integers(1, 5), tasks=st.integers(1, 3), at_a_time=st.sampled_from([1, 3, 8, 100]))
def test_what_is_left_is_the_difference(
    rows: list[tuple[int, int, bool]], buckets: int, tasks: int, at_a_time: int
) -> None:
    """Equal rows meet within a task or after the exchange. The first half of a hash does not make rows equal."""
    first = np.array([one << 62 for one, _, _ in rows], dtype=np.uint64)
    second = np.array([other for _, other, _ in rows], dtype=np.uint64)
    sides = np.array([side for _, _, side in rows], dtype=bool)
    items: list[tuple[int, pa.RecordBatch]] = []
    with patch.object(row_difference, "_AT_A_TIME", at_a_time):
        for task in range(tasks):
            hashed = HashedRows(buckets)
            for some in np.array_split(np.arange(task, len(rows), tasks), 2):
                items += hashed.add((first[some], second[some]), 7, some, sides[some])
            items += hashed.rest()
    by_bucket: dict[int, list[pa.RecordBatch]] = {}
    for bucket, batch in items:
        by_bucket.setdefault(bucket, []).append(batch)
    left = Counter[tuple[int, int, bool]]()
    for batches in by_bucket.values():
        for _, batch in settled(batches, part_buckets=3):
            assert set(batch.column("part").to_pylist()) == {7}
            places = zip(batch.column("position").to_pylist(), batch.column("is_to").to_pylist(), strict=True)
            for place, is_to in places:
                assert rows[place][2] == is_to
                left[rows[place]] += 1
    counts = [Counter((one, other) for one, other, side in rows if side == wanted) for wanted in (False, True)]
    expected = Counter({(*row, False): n for row, n in (counts[0] - counts[1]).items()})
    expected += Counter({(*row, True): n for row, n in (counts[1] - counts[0]).items()})
    assert left == expected


@given(rows=rows, chance=st.randoms(use_true_random=False))
def test_the_same_of_equal_rows_is_left_in_whatever_order_they_arrive(
    rows: list[tuple[int, int, bool]], chance: random.Random
) -> None:
    def left(order: list[int]) -> set[tuple[int, bool]]:
        some = [rows[place] for place in order]
        columns = [
            pa.array([one << 62 for one, _, _ in some], pa.uint64()),
            pa.array([other for _, other, _ in some], pa.uint64()),
            pa.array(order, pa.int64()),
            pa.array([is_to for _, _, is_to in some], pa.bool_()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, ["first", "second", "row", "is_to"])
        found = [one for _, one in settled([batch], part_buckets=1)]
        return {place for one in found for place in zip(*(one.column(n).to_pylist() for n in (1, 2)), strict=True)}

    order = list(range(len(rows)))
    chance.shuffle(order)
    assert left(order) == left(sorted(order))


def test_hashes_that_occur_more_than_once() -> None:
    first = np.array([1, 1, 1, 2, 3, 3], dtype=np.uint64)
    second = np.array([5, 6, 5, 7, 8, 8], dtype=np.uint64)
    assert repeated([first, second]) == 2
    assert repeated([first[:0], second[:0]]) == 0
