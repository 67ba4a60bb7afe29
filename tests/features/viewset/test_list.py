"""`viewset list`."""

from __future__ import annotations

import pytest

from tests.features.viewset.logs import Logs

pytestmark = pytest.mark.spark


def test_every_view_set_with_its_schema(logs: Logs) -> None:
    assert logs.viewset.list() == []
    logs.insert(0)
    current = logs.define()["schema_hash"]
    (row,) = logs.viewset.list()
    assert (row.view_set_name, row.current_schema_hash, row.has_view_maker) == ("entries", current, False)
    assert row.schema == "time timestamptz, process_id string, level int, msg string"
    assert not row.global_instance_available
    logs.write(1)
    logs.define(instances="process_id")
    (row,) = logs.viewset.list()
    assert row.global_instance_available and row.has_view_maker
