"""The partitions that a table should have, and the statements that lead there.

Covers `features/sequence/names.py` and `features/sequence/reorganizing.py`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.intention import Outlook, intended, split
from lakewarden.features.sequence.names import date_in, name_for
from lakewarden.features.sequence.partitions import Partition, PartitionedTable
from lakewarden.features.sequence.rate import Rate
from lakewarden.features.sequence.reorganizing import reorganizations

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
PERIOD = timedelta(days=30)


def table(*parts: tuple[str, int | None], columns: int = 1) -> PartitionedTable:
    made = tuple(Partition(name, None if bound is None else (bound,) * columns) for name, bound in parts)
    return PartitionedTable("server", "shop", "orders", tuple("abc"[:columns]), made)


def outlook(position: int, per_day: float, spread: float = 0.02, columns: int = 1) -> Outlook:
    rate = Rate(per_day, per_day * (1 - spread), per_day * (1 + spread))
    return Outlook((position,) * columns, (rate,) * columns, NOW)


@pytest.mark.parametrize(
    ("name", "day", "span"),
    [
        ("p_20260131", date(2026, 1, 31), 1),
        ("p_202602", date(2026, 2, 1), 30),
        ("p_2026", date(2026, 1, 1), 365),
        ("P_20260131", date(2026, 1, 31), 1),
    ],
)
def test_dates_in_names(name: str, day: date, span: int) -> None:
    found = date_in(name)
    assert found is not None and (found.day, found.span) == (day, timedelta(days=span))


@pytest.mark.parametrize(
    "name", ["p_start", "p_20261301", "p_2026010", "p2026", "p_", "p_20260131x", "future", "p_٢٠٢٦"]
)
def test_names_without_a_date(name: str) -> None:
    assert date_in(name) is None


def test_a_position_at_a_bound_is_in_the_next_partition() -> None:
    parts = split(table(("a", 100), ("b", 200), ("c", None)), (100,))
    assert [p.name for p in parts.filled] == ["a"] and parts.active.name == "b"
    assert split(table(("a", 100), ("b", None)), (99,)).active.name == "a"


def test_positions_over_several_columns_are_compared_as_the_server_does() -> None:
    made = table(("a", 100), ("b", None), columns=2)
    assert split(made, (99, 500)).active.name == "a"
    assert split(made, (100, 99)).active.name == "a"
    assert split(made, (100, 100)).active.name == "b"


def test_what_is_near_enough_stays() -> None:
    made = table(("p_20261001", 1000), ("p_20261125", 2000), ("p_20261220", None))
    parts = split(made, (500,))  # at 40 a day the next begins on 2026-11-28, and takes 25 days
    assert intended(parts, outlook(500, 40), PERIOD, 2) == parts.empty
    assert reorganizations(parts.empty, parts.empty) == []


def test_far_off_names_and_bounds_are_changed() -> None:
    made = table(("p_20261001", 1000), ("p_20261110", 1100), ("p_20261220", None))
    parts = split(made, (500,))
    found = intended(parts, outlook(500, 40), PERIOD, 2)
    assert found == (Partition("p_20261128", (2200,)), Partition("p_20261228", None))
    (change,) = reorganizations(parts.empty, found)
    assert change.sql(made) == (
        "ALTER TABLE `shop`.`orders` WAIT 1 REORGANIZE PARTITION `p_20261110`, `p_20261220` INTO ("
        "PARTITION `p_20261128` VALUES LESS THAN (2200), PARTITION `p_20261228` VALUES LESS THAN MAXVALUE);"
    )


def test_what_an_uncertain_rate_allows_stays() -> None:
    made = table(("p_20261001", 1000), ("p_20261220", 1600), ("p_20270201", None))
    parts = split(made, (500,))
    assert intended(parts, outlook(500, 40, spread=0.9), PERIOD, 2) == parts.empty
    assert intended(parts, outlook(500, 40, spread=0.02), PERIOD, 2) != parts.empty


def test_no_empty_partition() -> None:
    with pytest.raises(UnfitDatabase, match="no empty partition is left"):
        intended(split(table(("a", 10), ("b", None)), (10,)), outlook(10, 1), PERIOD, 2)


def test_a_table_that_stands_still_gets_no_new_partitions() -> None:
    parts = split(table(("p_20261001", 1000), ("p_20261120", None)), (500,))
    with pytest.raises(UnfitDatabase, match="no rows arrive"):
        intended(parts, outlook(500, 0), PERIOD, 2)
    assert intended(parts, outlook(500, 0), PERIOD, 1) == parts.empty


def test_no_date_is_left() -> None:
    with pytest.raises(UnfitDatabase, match="no date is left"):
        name_for(NOW, NOW, date.max)


_NAMES = st.one_of(
    st.dates(date(1990, 1, 1), date(2100, 1, 1)).map(lambda day: f"p_{day:%Y%m%d}"),
    st.sampled_from(["p_start", "future", "p_2026", "p_202611", "p_20261116"]),
)


@given(
    names=st.lists(_NAMES, min_size=2, max_size=9, unique=True),
    steps=st.lists(st.integers(1, 10**6), min_size=9, max_size=9),
    place=st.floats(0, 0.999),
    per_day=st.floats(1e-6, 1e9),
    spread=st.floats(0, 2),
    num_empty=st.integers(1, 6),
    days=st.integers(1, 400),
    columns=st.integers(1, 2),
)
def test_names_never_run_backwards_or_clash(
    names: list[str],
    steps: list[int],
    place: float,
    per_day: float,
    spread: float,
    num_empty: int,
    days: int,
    columns: int,
) -> None:
    bounds = [sum(steps[: number + 1]) for number in range(len(names) - 1)]
    made = table(*zip(names, [*bounds, None], strict=True), columns=columns)
    position = int(bounds[-1] * place)
    parts, known = split(made, (position,) * columns), outlook(position, per_day, spread, columns)
    assume(parts.empty)
    period = timedelta(days=days)
    found = intended(parts, known, period, num_empty)

    dated = [each.day for partition in found if (each := date_in(partition.name))]
    before = [each.day for partition in parts.non_empty if (each := date_in(partition.name))]
    assert len(dated) == len(found) and dated == sorted(set(dated)) and min(dated) > max(before, default=date.min)
    limits = [partition.bound for partition in (parts.active, *found)]
    assert limits[-1] is None and None not in limits[:-1]
    assert all(a < b for a, b in pairwise(limits) if a is not None and b is not None)
    assert len(found) == max(num_empty, len(parts.empty))

    _replayed(made, found, len(parts.non_empty))
    again = split(
        PartitionedTable("server", "shop", "orders", made.columns, (*parts.non_empty, *found)), known.position
    )
    assert intended(again, known, period, num_empty) == found  # a second run changes nothing


def _replayed(made: PartitionedTable, found: tuple[Partition, ...], kept: int) -> None:
    """Do what the statements do, with the rules of the server: same range, unique names, bounds that grow."""
    current = list(made.partitions)
    for change in reorganizations(current[kept:], found):
        start = current.index(change.old[0])
        assert tuple(current[start : start + len(change.old)]) == change.old
        assert change.old[-1].bound == change.new[-1].bound
        current[start : start + len(change.old)] = change.new
        lowered = [partition.name.lower() for partition in current]
        assert len(set(lowered)) == len(lowered)
        grown = [partition.bound for partition in current[:-1]]
        assert grown == sorted(set(grown), key=lambda bound: bound or ())
    assert tuple(current[kept:]) == found
