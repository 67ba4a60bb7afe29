"""Which incompatible partitions share their time with others, without a lake.

Covers `features/viewset/stored_times.py`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.features.viewset.catalogue import PartitionRow
from lakewarden.features.viewset.overlap import doubled
from lakewarden.features.viewset.stored_times import Times, without_doubled
from lakewarden.features.viewset.ways.incompatible_partitions import sort_out
from tests.features.viewset.logs import DAY

SPANS = st.tuples(st.integers(0, 20), st.integers(1, 6)).map(lambda span: (span[0], sum(span)))


def _row(schema_hash: str, begin: int, end: int, updated: int = 0, instance: str = "global") -> PartitionRow:
    hour = timedelta(hours=1)
    return PartitionRow(
        view_set_name="entries",
        view_instance_id=instance,
        begin_insert_time=DAY + begin * hour,
        end_insert_time=DAY + end * hour,
        min_event_time=None,
        max_event_time=None,
        updated=DAY + updated * hour,
        file_path=f"{schema_hash}-{begin}-{end}",
        file_size=1,
        file_schema_hash=schema_hash,
        source_data_hash="",
        num_rows=1,
    )


@given(st.lists(SPANS, max_size=12), SPANS)
def test_times_as_hours_would_say_it(taken: list[tuple[int, int]], span: tuple[int, int]) -> None:
    times, hours = Times(), set[int]()
    for begin, end in taken:
        times.add(DAY + timedelta(hours=begin), DAY + timedelta(hours=end))
        hours |= set(range(begin, end))
    first, last = (DAY + timedelta(hours=hour) for hour in span)
    own = set(range(*span))
    assert times.covers(first, last) == (own <= hours)
    assert times.overlaps(first, last) == bool(own & hours)


def test_those_that_share_their_time_with_current_ones_or_with_each_other() -> None:
    rows = [
        _row("now", 0, 1),
        _row("now", 1, 2),
        _row("old", 0, 2),  # covered by two
        _row("old", 1, 3),  # half of it
        _row("old", 5, 6, updated=1),
        _row("older", 5, 6, updated=2),  # newer, and of a higher rank
        _row("older", 7, 8),
        _row("old", 0, 1, instance="p1"),  # current ones of another instance do not matter
    ]
    found = sort_out(rows, "now", lambda one: {"old": 0, "older": 1}[one])
    named = {
        name: sorted(one.rows[0].file_path or "" for one in some)
        for name, some in (("left", found.left), ("gone", found.superseded), ("stuck", found.overlapping))
    }
    assert named == {
        "left": ["old-0-1", "old-5-6", "older-7-8"],
        "gone": ["old-0-2", "older-5-6"],
        "stuck": ["old-1-3"],
    }
    alone = sort_out(rows, "now", lambda one: 0)
    assert "older-5-6" in [one.rows[0].file_path for one in alone.left]  # the newest of equal rank


def test_what_may_stand_beside_others() -> None:
    there = [_row("a", 0, 3), _row("a", 1, 2), _row("b", 3, 5)]
    for begin, end, schema_hash, is_doubled in ((2, 4, "a", True), (3, 4, "a", False), (0, 3, "b", False)):
        coming = _row(schema_hash, begin, end).identity
        assert doubled(there, [coming]) == (coming if is_doubled else None)
    assert doubled(there, [_row("a", 0, 1, instance="p1").identity]) is None


def test_a_kept_schema_counts_only_without_a_partition_that_shares_time() -> None:
    def at(stored: str, hour: int, instance: str = "global") -> tuple[str, datetime, datetime, str]:
        return instance, DAY + timedelta(hours=hour), DAY + timedelta(hours=hour + 1), stored

    there = [at("new", 0), at("new", 0), at("old", 1), at("old", 2), at("older", 0, "p1"), at("oldest", 2)]
    assert without_doubled(["new", "old", "older", "oldest"], there) == ["new", "old", "older"]
    assert without_doubled(["new", "old"], [*there, at("old", 0)]) == ["new"]
    assert without_doubled(["new", "old"], []) == ["new", "old"]
