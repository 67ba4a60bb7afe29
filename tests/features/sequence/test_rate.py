"""How fast a table fills: robust against names that are all early, outliers, and observations out of order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.features.sequence.rate import DAY, Observation, Rate, estimate, in_order

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PERIOD = timedelta(days=30)
RATE = 29.1


def observed(days: float, position: float, is_exact: bool = False) -> Observation:
    at = NOW - timedelta(days=days)
    midnight = at if is_exact else at.replace(hour=0, minute=0, second=0, microsecond=0)
    return Observation(midnight, int(position), is_exact, timedelta() if is_exact else DAY)


def named(early: list[float], part: float = 0.5) -> list[Observation]:
    """The starts of partitions of 30 days by their names, and where the table is now."""
    count = len(early)
    starts = [(count - number - 1 + part) * 30 for number in range(count)]
    top = 100_000.0
    found = [observed(days + by, top - RATE * days) for days, by in zip(starts, early, strict=True)]
    return [*(each for each in found if each.at < NOW), observed(0, top, is_exact=True)]


def rate(observations: list[Observation]) -> Rate:
    found = estimate(observations, NOW, PERIOD)
    assert found is not None
    return found


@given(st.lists(st.floats(20, 28), min_size=10, max_size=11), st.floats(0.02, 0.98))
def test_names_that_are_early_by_20_to_28_days(early: list[float], part: float) -> None:
    found = rate(named(early, part))
    assert found.per_day == pytest.approx(RATE, rel=0.05)
    assert found.low <= RATE <= found.high


@pytest.mark.parametrize("early", [[0.0] * 10, [20.0] * 5 + [28.0] * 5, [28.0] * 5 + [20.0] * 5, [28.0, 20.0] * 5])
def test_names_that_are_true_or_change(early: list[float]) -> None:
    found = rate(named(early))
    assert found.per_day == pytest.approx(RATE, rel=0.05)
    assert found.low <= RATE <= found.high


def test_one_wrong_name_has_no_influence() -> None:
    wrong = [0.0] * 10
    wrong[4] = 45.0
    assert rate(named(wrong)).per_day == pytest.approx(RATE, rel=0.01)


def test_newer_observations_weigh_more() -> None:
    slow = [observed(400 - 30 * n, 1000 + 300 * n, True) for n in range(10)]
    fast = [observed(130 - 30 * n, 3700 + 900 * n, True) for n in range(1, 5)]
    found = rate([*slow, *fast])
    assert 20 < found.per_day <= 31


def test_a_pair_out_of_order_has_no_weight() -> None:
    """Neither a name from the future, nor one that runs backwards."""
    right = named([0.0] * 10)
    wrong = [Observation(NOW + timedelta(days=90), 99_000, False, DAY), observed(700, 99_500)]
    assert in_order([*right, *wrong]) == sorted(right, key=lambda each: each.at)
    assert rate([*right, *wrong]) == rate(right)


def test_exact_observations_outweigh_names() -> None:
    lies = [observed(10 * number, 100_000 - 900 * number) for number in range(1, 11)]
    now = observed(0, 100_000, True)
    assert rate([*lies, now]).per_day == pytest.approx(90, rel=0.05)
    recorded = [observed(days, 100_000 - RATE * days, True) for days in (1, 2, 3)]
    assert rate([*lies, *recorded, now]).per_day == pytest.approx(RATE, rel=0.02)
    too_short = [observed(0.1, 99_999, True)]
    assert rate([*lies, *too_short, now]).per_day > 80


def test_the_interval_narrows_with_time() -> None:
    def width(days: int) -> float:
        found = rate([observed(day, 100_000 - RATE * day, True) for day in range(days + 1)])
        assert found.low <= RATE <= found.high
        return found.high - found.low

    assert width(1) > width(3) > width(10) > width(60) and width(60) < RATE / 10


def test_a_thousand_observations_are_thinned_and_the_newest_stays() -> None:
    many = [observed(hours / 24, 100_000 - RATE * hours / 24, True) for hours in range(1000)]
    assert rate(many).per_day == pytest.approx(RATE, rel=0.01)


def test_a_table_that_stands_still() -> None:
    found = rate([observed(days, 1000, True) for days in range(5)])
    assert found.per_day == 0 and not found.is_growing


def test_too_little_is_known() -> None:
    assert estimate([], NOW, PERIOD) is None
    assert estimate([observed(0, 10, True)], NOW, PERIOD) is None
    assert estimate([observed(0, 10, True), observed(0, 20, True)], NOW, PERIOD) is None


_OBSERVED = st.builds(
    observed,
    st.floats(-100, 4000),
    st.integers(0, 2**63),
    st.booleans(),
)


@given(st.lists(_OBSERVED, max_size=12))
def test_whatever_is_observed_there_is_a_number_or_none(observations: list[Observation]) -> None:
    chain = in_order(observations)
    assert all(a.at <= b.at and (a.position <= b.position or a.is_exact != b.is_exact) for a, b in pairwise(chain))
    found = estimate(observations, NOW, PERIOD)
    assert found is None or (found.per_day == found.per_day and found.low <= found.per_day <= found.high)
