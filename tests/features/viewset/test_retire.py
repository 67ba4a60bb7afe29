"""`viewset retire`, on real Spark."""

from __future__ import annotations

import pytest

from lakewarden.errors import NotFound
from tests.features.viewset.logs import DAY, Logs

pytestmark = pytest.mark.spark


def test_a_range_names_the_good_ones(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    plan = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-01T01:00")
    assert "1 of them have the current schema: global 2026-01-01 00:00" in plan.plan.warnings[0]
    (path,) = [row.file_path for row in logs.viewset.partitions() if row.begin_insert_time == DAY]
    assert logs.viewset.retire("entries", file=[path]).apply().result["partitions_retired"] == 1
    with pytest.raises(NotFound, match="Partition not found"):
        logs.viewset.retire("entries", file=[path])


def test_several_at_once_one_of_which_is_gone(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(3)
    plan = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-01T03:00")
    (path,) = [row.file_path for row in logs.viewset.partitions() if row.begin_insert_time == DAY]
    logs.viewset.retire("entries", file=[path]).apply()
    done = plan.apply().result
    assert (done["partitions_retired"], done["partitions_failed"]) == (2, 1)
    assert logs.held() == {} and logs.rows() == []
