"""How old partitions are without a date query: never older than they are. See `test_drop.py` for a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.features.sequence.ages import _full_by
from lakewarden.features.sequence.partitions import Partition
from lakewarden.records.sequence import RecordedPosition

START = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(days=30)


def full(own: str, after: str, *recorded: tuple[int, int]) -> str | None:
    """When a partition below 1000 was full, by positions that were recorded on days of the year."""
    known = [RecordedPosition(START + timedelta(days=day), (position,)) for day, position in recorded]
    found = _full_by(Partition(own, (1000,)), Partition(after, None), known, PERIOD)
    return f"{found:%m-%d}" if found else None


def test_names_count_with_one_period_more() -> None:
    assert full("p_20260101", "p_20260201") == "03-04"
    assert full("p_start", "p_20260201") is None and full("p_20260201", "p_20260101") is None


def test_recorded_positions_outweigh_names() -> None:
    assert full("p_20260101", "p_20260201", (40, 900), (50, 999), (60, 1000), (70, 1500)) == "03-02"
    assert full("p_20260101", "p_20260201", (200, 999), (201, 1001)) == "07-21"
    assert full("p_start", "p_20260201", (200, 999), (201, 1001)) == "07-21"
    assert full("p_20260101", "p_20260201", (40, 900)) == "03-04"


def test_what_was_recorded_first_is_only_a_limit() -> None:
    """It was full before the first record: perhaps long before."""
    assert full("p_20260101", "p_20260201", (200, 5000)) == "03-04"
    assert full("p_20260101", "p_20260201", (40, 5000)) == "02-10"
    assert full("p_start", "p_20260201", (40, 5000)) == "02-10"


@given(
    rate=st.floats(1, 1000),
    early=st.floats(0, 28),
    days=st.lists(st.floats(0, 400), max_size=20).map(sorted),
)
def test_a_partition_is_never_taken_for_older_than_it_is(rate: float, early: float, days: list[float]) -> None:
    truth = START + timedelta(days=1000 / rate)
    name = f"p_{truth - timedelta(days=early):%Y%m%d}"
    recorded = [RecordedPosition(START + timedelta(days=day), (int(rate * day),)) for day in days]
    found = _full_by(Partition("p_2000", (1000,)), Partition(name, None), recorded, PERIOD)
    assert found is not None and found >= truth - timedelta(seconds=1)
