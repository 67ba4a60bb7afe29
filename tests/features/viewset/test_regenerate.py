"""`viewset regenerate`, on real Spark."""

from __future__ import annotations

import pytest

from lakewarden.errors import Conflict
from tests.features.viewset.logs import SQL, Logs

pytestmark = pytest.mark.spark


def test_replaces_every_schema_in_one_commit(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(3)
    second = logs.define(SQL.replace("msg", "msg, level + 1 AS next"))["schema_hash"]
    table = logs.lake.catalog.load_table("viewsets.entries")
    before = len(table.metadata.snapshots)
    again = logs.viewset.regenerate("entries", begin="2026-01-01", end="2026-01-01T04:00", delta="2h")
    assert again.apply().result["partitions"] == 2
    assert logs.held() == {(0, second): 2, (2, second): 0}
    assert len(logs.lake.catalog.load_table("viewsets.entries").metadata.snapshots) == before + 1


def test_a_partition_of_which_a_part_would_stay_is_refused(logs: Logs) -> None:
    logs.insert(0)
    logs.define()
    logs.write(2)
    with pytest.raises(Conflict, match="only a part"):
        logs.viewset.regenerate("entries", begin="2026-01-01T00:30", end="2026-01-01T02:30", delta="1h")
