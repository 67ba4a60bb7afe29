"""`viewset incompatible`, on real Spark."""

from __future__ import annotations

import pytest

from tests.features.viewset.logs import SQL, Logs

pytestmark = pytest.mark.spark


def test_partitions_of_another_schema_by_instance(logs: Logs) -> None:
    logs.insert(0, 61)
    first = logs.define(instances="process_id")["schema_hash"]
    logs.write(3)
    logs.write(1, instance="p1")
    assert logs.viewset.incompatible() == []
    second = logs.define(SQL.replace("msg", "upper(msg) AS shout"), instances="process_id")["schema_hash"]
    found = logs.viewset.incompatible("entries")
    assert [(one.view_instance_id, one.partition_count, len(one.file_paths)) for one in found] == [
        ("global", 3, 2),
        ("p1", 1, 1),
    ]
    assert {(one.incompatible_schema_hash, one.current_schema_hash) for one in found} == {(first, second)}
