"""View sets in `policy run` and `table health`, on real Spark."""

from __future__ import annotations

import pytest

from tests.features.viewset.logs import Logs

pytestmark = pytest.mark.spark


def test_upkeep_retires_outdated_partitions_and_nothing_else(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(3)
    warden = logs.lake.warden
    assert "retire" not in [action.verb for action in warden.policy.run().plan.actions]

    logs.define(keep="1h")
    (health,) = warden.table.health("viewsets.entries")
    assert "3 partitions older than the view set keeps them" in health.worst
    assert health.next == "lakewarden policy run --only viewset main.viewsets.entries"
    plan = warden.policy.run(only=["viewset"])
    assert [(action.subject, action.verb) for action in plan.plan.actions] == [("main.viewsets.entries", "retire")]
    report = plan.apply()
    assert (report.result["partitions_retired"], logs.held()) == (3, {})
    assert warden.policy.run(only=["viewset"]).is_empty
    assert warden.table.health("viewsets.entries")[0].worst == ""

    logs.viewset.restore(report.id).apply()
    assert sorted(logs.held().values()) == [0, 1, 1]
