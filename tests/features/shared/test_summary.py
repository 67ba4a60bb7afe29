"""What snapshot summaries say about a table's size, and when they say nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from lakewarden.features.shared.summary import live_rows, number, total


def snapshot(**totals: str) -> Snapshot:
    properties: dict[str, Any] = {f"total-{key.replace('_', '-')}": value for key, value in totals.items()}
    return Snapshot(
        snapshot_id=1, timestamp_ms=0, manifest_list="file:/x", summary=Summary(Operation.APPEND, **properties)
    )


def test_rows_are_records_without_those_deleted_by_position() -> None:
    assert live_rows(snapshot(records="10", position_deletes="3")) == 7
    assert live_rows(snapshot(records="2", position_deletes="3")) == 0  # the same row may be deleted twice
    assert live_rows(None) == 0


def test_unknown_where_equality_deletes_may_mask_any_row() -> None:
    assert live_rows(snapshot(records="10", equality_deletes="1")) is None
    assert live_rows(snapshot(records="10", equality_deletes="0")) == 10
    assert live_rows(snapshot(position_deletes="0")) is None


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "١"])
def test_what_is_no_count_is_unknown(text: str) -> None:
    assert number({"k": text}, "k") is None and total(snapshot(records=text), "records") is None
