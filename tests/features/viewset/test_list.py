"""`viewset list`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.features.viewset.definition import PROPERTY
from tests.features.viewset.logs import SCHEMA, Logs

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

    table = logs.lake.catalog.create_table("raw.damaged", SCHEMA)
    with table.transaction() as change:
        change.set_properties({PROPERTY: "no definition"})
    logs.lake.catalog.create_table("raw.lost", SCHEMA)
    Path(logs.lake.catalog.load_table("raw.lost").metadata_location.removeprefix("file://")).unlink()
    with logs.lake.catalog.create_table("raw.encrypted", SCHEMA).transaction() as change:
        change.set_properties({"encryption.key-id": "k1"})
    newer = logs.lake.catalog.create_table("raw.newer", SCHEMA).metadata_location.removeprefix("file://")
    Path(newer).write_text(json.dumps(json.loads(Path(newer).read_text()) | {"format-version": 4}))
    assert logs.viewset.list() == [row]  # others are not stopped by it
    (path,) = [one.file_path for one in logs.viewset.partitions() if one.file_path]
    told = logs.lake.warden.query(f"SELECT retire_partition_by_file('{path}') AS told")["told"].tolist()
    assert told == [f"SUCCESS: Retired partition {path}"]
