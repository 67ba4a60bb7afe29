"""`operation show`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.errors import OperationNotFound, StalePlan
from tests.small_lake import SmallLake


def test_shows_the_request_each_action_and_the_result(any_lake: SmallLake) -> None:
    any_lake.create()
    planned = any_lake.warden.version.tag("sales.orders", "v1", keep="90d", note="books closed")
    report = planned.apply()

    shown = any_lake.warden.operation.show(report.id)

    assert shown.request == {"version": "sales.orders", "name": "v1", "keep": "90d", "note": "books closed"}
    assert (shown.state, shown.plan_id) == ("done", planned.plan.id)
    (step,) = shown.steps
    assert (step.subject, step.state) == ("main.sales.orders", "verified")
    assert shown.planned_by == shown.applied_by != ""
    kept_until = shown.result["kept_until"]
    left = datetime.fromisoformat(kept_until) - datetime.now(UTC)  # rounded up to a minute
    assert timedelta(days=89) < left <= timedelta(days=90, minutes=1)
    assert shown.result == {"actions": 1, "subjects": 1, "tags": 1, "kept_until": kept_until}
    assert any_lake.warden.operation.show(planned.plan.id) == shown


def test_shows_what_went_wrong(any_lake: SmallLake) -> None:
    any_lake.create()
    planned = any_lake.warden.version.tag("sales.orders", "v1")
    moved = any_lake.append()
    any_lake.catalog.load_table("sales.orders").manage_snapshots().create_tag(moved, "v1").commit()
    with pytest.raises(StalePlan) as failed:
        planned.apply()

    shown = any_lake.warden.operation.show(failed.value.details["operation"])

    assert shown.state == "failed"
    assert shown.error["code"] == "stale"
    assert [step.state for step in shown.steps] == ["stale"]
    assert str(moved) in shown.steps[0].problem


def test_an_unknown_id(any_lake: SmallLake) -> None:
    with pytest.raises(OperationNotFound, match="op-nothing"):
        any_lake.warden.operation.show("op-nothing")
