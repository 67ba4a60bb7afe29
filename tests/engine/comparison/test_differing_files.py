"""Which files are read: those that do not cancel out, over compactions too.

Covers `engine/comparison/compare.py`, `engine/comparison/row_counts.py` and `engine/kernel/compared_files.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.engine.comparison.differing_files import FileDifference, difference
from tests.features.compare.made_histories import MadeHistory
from tests.small_lake import SmallLake


def row(number: int) -> dict[str, Any]:
    return {"id": number, "part": number % 3, "name": "x", "marks": None}


@pytest.fixture
def history(lake: SmallLake) -> MadeHistory:
    made = MadeHistory(lake.catalog, "h.t", [row(n) for n in range(9)])
    made.append([row(20)])
    return made


def between(lake: SmallLake, history: MadeHistory, before: int, after: int) -> FileDifference:
    table = history.table
    one, other = (table.snapshot_by_id(history.versions()[place]) for place in (before, after))
    return difference(lake.warden.ground.files, table, one, other)


def test_what_was_appended(lake: SmallLake, history: MadeHistory) -> None:
    found = between(lake, history, 0, 1)
    assert [(each.before, each.after is not None) for each in found.differing] == [(None, True)]
    assert len(found.shared) == 1
    back = between(lake, history, 1, 0)
    assert [(each.before is not None, each.after) for each in back.differing] == [(True, None)]
    assert between(lake, history, 1, 1).differing == ()


def test_a_compaction_cancels_out(lake: SmallLake, history: MadeHistory) -> None:
    history.go([("compact", 0), ("append", [row(30)])])
    found = between(lake, history, 0, 3)
    assert found.replaced == 1
    assert sorted(each.file.rows for each in found.differing) == [1, 1]
    assert all(each.before is None for each in found.differing)
    alone = between(lake, history, 1, 2)
    assert (alone.differing, alone.replaced) == ((), 1)


def test_deletes_after_a_compaction(lake: SmallLake, history: MadeHistory) -> None:
    history.go([("compact", 0), ("mask", 4)])
    found = between(lake, history, 1, 3)
    (only,) = found.differing
    assert only.before is not None and only.after is not None and len(only.after.deletes) == 1


def test_an_expired_parent_does_not_cancel_out(lake: SmallLake, history: MadeHistory) -> None:
    """What the compaction replaced is not known any more: then all is read that differs."""
    history.go([("append", [row(40)]), ("compact", 0)])
    table = history.table
    table.maintenance.expire_snapshots().by_id(history.versions()[2]).commit()
    found = between(lake, history, 1, 2)
    assert found.replaced == 0
    assert {each.before is None for each in found.differing} == {True, False}
