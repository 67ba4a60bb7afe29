"""`viewset restore` and `viewset incompatible`, on real Spark."""

from __future__ import annotations

import json

import pytest

from lakewarden.errors import BadValue, Conflict, NotFound, StalePlan
from lakewarden.features.viewset.definition import HISTORY
from tests.features.viewset.logs import SQL, Logs

pytestmark = pytest.mark.spark


def test_only_incompatible_partitions_are_retired_and_restored(logs: Logs) -> None:
    logs.insert(*range(0, 240, 7))
    first = logs.define()["schema_hash"]
    logs.write(5)
    second = logs.define(SQL.replace("msg", "upper(msg) AS shout"))["schema_hash"]
    logs.viewset.materialize("entries", begin="2026-01-01", end="2026-01-01T02:00", delta="1h").apply()
    (found,) = logs.viewset.incompatible("entries")
    assert (found.incompatible_schema_hash, found.current_schema_hash) == (first, second)
    assert found.partition_count == 5 and len(found.file_paths) == 4
    everything = logs.held()
    plan = logs.viewset.retire("entries", incompatible=True)
    done = plan.apply()
    assert done.result["partitions_retired"] == 5 and done.result["partitions_failed"] == 0
    assert done.result["storage_freed_bytes"] == found.total_size_bytes
    assert set(logs.held()) == {(0, second), (1, second)}
    assert logs.viewset.incompatible() == []
    assert logs.viewset.restore(done.id).apply().result["partitions_restored"] == 5
    assert logs.held() == everything
    assert logs.viewset.restore(done.id).is_empty


def test_what_has_expired_cannot_come_back(logs: Logs) -> None:
    logs.insert(0)
    logs.define()
    logs.write(1)
    done = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02").apply()
    table = logs.lake.catalog.load_table("viewsets.entries")
    first = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(NotFound, match="has expired"):
        logs.viewset.restore(done.id)
    with pytest.raises(NotFound, match="no version of a view set"):
        logs.viewset.restore("op-20260101-000000-000000")


def test_nothing_comes_back_beside_what_took_its_place(logs: Logs) -> None:
    logs.insert(0)
    logs.define()
    logs.write(2)
    retired = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02").apply()
    planned = logs.viewset.restore(retired.id)
    logs.write(1)
    with pytest.raises(StalePlan, match="has partitions of global between 2026-01-01 00:00 and 2026-01-01 01:00"):
        planned.apply()
    with pytest.raises(Conflict, match="again by now"):
        logs.viewset.restore(retired.id)
    again = logs.viewset.regenerate("entries", begin="2026-01-01", end="2026-01-01T01:00", delta="1h").apply()
    with pytest.raises(BadValue, match="did not retire"):
        logs.viewset.restore(again.id)
    assert len(logs.rows()) == 1


def test_what_one_operation_retired_from_several(logs: Logs) -> None:
    """As `policy run` does. What cannot come back is named."""
    logs.insert(0)
    for name in ("entries", "others"):
        logs.define(name=name, keep="1d")
        logs.viewset.materialize(name, begin="2026-01-01", end="2026-01-01T02:00", delta="1h").apply()
    before = logs.viewset.partitions()
    done = logs.lake.warden.policy.run(only=["viewset"], all=True).apply()
    assert done.result["partitions_retired"] == 4 and logs.viewset.partitions() == []
    assert logs.viewset.restore(done.id).apply().result["partitions_restored"] == 4
    assert logs.viewset.partitions() == before

    again = logs.viewset.retire("others", begin="2026-01-01", end="2026-01-02").apply()
    logs.lake.warden.retention.expire("viewsets.others__empty", keep_last=1, keep_days=0).apply()
    planned = logs.viewset.restore(again.id)
    assert "others: 1 partition without rows cannot be restored" in planned.plan.warnings[0]
    assert planned.apply().result["partitions_restored"] == 1


def test_a_hash_that_an_earlier_release_gave_to_other_ids_too(logs: Logs) -> None:
    """Files of the former ids would be read as NULL in a column that has another id now."""
    logs.insert(0)
    first = logs.define()["schema_hash"]
    logs.write(1)
    retired = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-01T01:00").apply()
    logs.define(SQL.replace(", msg", ""))
    back = logs.define()["schema_hash"]
    with logs.lake.catalog.load_table("viewsets.entries").transaction() as change:
        history = json.loads(change.table_metadata.properties[HISTORY])
        history[first] += history.pop(back)
        change.set_properties({HISTORY: json.dumps(history)})
    assert logs.define() == {"actions": 0, "subjects": 0}
    assert logs.viewset.show("entries").current_schema_hash == first
    with pytest.raises(Conflict, match="had other field ids"):
        logs.viewset.restore(retired.id)
    logs.write(1)
    assert [row["msg"] for row in logs.rows()] == ["m0"]


def test_what_was_retired_stays_incompatible_when_its_columns_come_back_under_other_ids(logs: Logs) -> None:
    logs.insert(0)
    first = logs.define()["schema_hash"]
    logs.write(1)
    logs.define(SQL.replace("level", "CAST(level AS BIGINT) AS level"))
    logs.write(1)
    retired = logs.viewset.retire("entries", incompatible=True).apply()
    logs.define()  # level was stored as a long, so it is another column now
    logs.viewset.restore(retired.id).apply()
    assert first in {one.incompatible_schema_hash for one in logs.viewset.incompatible()}
    logs.viewset.heal("entries").apply()
    assert logs.viewset.incompatible() == [] and [row["level"] for row in logs.rows()] == [1]
