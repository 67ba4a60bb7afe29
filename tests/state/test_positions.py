"""Recorded positions of database tables.

Covers `records/sequence.py` and `state/migrations/versions/0002_sequence_positions.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.records.sequence import RecordedPosition
from lakewarden.state import positions
from lakewarden.state.database import Database
from lakewarden.state.positions import SqlPositions

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def recorded(hours: float, *position: int) -> RecordedPosition:
    return RecordedPosition(NOW + timedelta(hours=hours), position)


def test_positions_are_kept_by_table_oldest_first(database: Database) -> None:
    store = SqlPositions(database)
    for hours in (0, 24, 24.5, 48):
        store.record("a", recorded(hours, int(hours), 2**63 - 1))
    store.record("b", recorded(0, 7))
    assert store.positions("a") == [recorded(h, h, 2**63 - 1) for h in (0, 24, 48)]  # one an hour is enough
    assert store.positions("b") == [recorded(0, 7)] and store.positions("c") == []


def test_only_the_newest_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqlPositions(database)
    monkeypatch.setattr(positions, "_MOST", 3)
    for hours in range(0, 10, 2):
        store.record("many", recorded(hours, hours))
    assert [each.position for each in store.positions("many")] == [(4,), (6,), (8,)]
