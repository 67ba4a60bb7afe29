"""`lakewarden.admin`: incompatible partitions through any client of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakewarden import admin
from lakewarden.errors import NotFound
from tests.features.viewset.logs import RANGE, Logs
from tests.small_lake import SmallLake

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

pytestmark = pytest.mark.spark


class OnSpark:
    """A client that is not a warden."""

    def __init__(self, lake: SmallLake) -> None:
        self._lake = lake

    def query(self, sql: str) -> pd.DataFrame:
        return self._lake.warden.query(sql, engine="spark")


class Answers:
    """A client whose retirements differ from what was listed before: another process compacted."""

    def query(self, sql: str) -> pd.DataFrame:
        import pandas as pd

        texts = ["SUCCESS: Retired partition a: 70 bytes", "ERROR: Partition not found: b: 9 bytes"]
        return pd.DataFrame({"view_set_name": "v", "view_instance_id": "i", "size": 100, "message": texts})


def test_what_left_is_counted_and_not_what_was_listed() -> None:
    (row,) = admin.retire_incompatible_partitions(Answers()).to_dict("records")
    assert (row["partitions_retired"], row["partitions_failed"], row["storage_freed_bytes"]) == (1, 1, 70)


class Lists:
    """A client with one view set, of which all partitions are current."""

    def query(self, sql: str) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({"view_set_name": ["log_entries"] if sql.endswith("FROM list_view_sets()") else []})


@pytest.mark.parametrize("act", [admin.list_incompatible_partitions, admin.retire_incompatible_partitions])
def test_a_view_set_that_does_not_exist_is_refused(act: Callable[..., pd.DataFrame]) -> None:
    assert act(Lists(), "log_entries").empty
    with pytest.raises(NotFound, match=r"no view set log_entires.*Did you mean log_entries"):
        act(Lists(), "log_entires")


def test_what_a_schema_change_left_behind(lake: SmallLake) -> None:
    logs = Logs(lake)
    logs.insert(0, 61)
    old = logs.define(instances="process_id")["schema_hash"]
    logs.write(3)  # the last one has no rows
    logs.write(1, instance="p1")
    assert admin.list_incompatible_partitions(lake.warden).empty
    new = logs.define(f"SELECT time, msg FROM raw.logs WHERE {RANGE}", instances="process_id")["schema_hash"]
    logs.viewset.materialize("entries", begin="2026-01-01T05:00", end="2026-01-01T06:00", delta="1h").apply()
    left = {row.file_path: row for row in logs.viewset.partitions() if row.file_schema_hash == old}

    for client in (lake.warden, OnSpark(lake)):
        found = admin.list_incompatible_partitions(client)
        assert list(found.columns) == [
            "view_set_name", "view_instance_id", "incompatible_schema_hash", "current_schema_hash", "partition_count",
            "total_size_bytes", "file_paths",
        ]  # fmt: skip
        assert found[["view_instance_id", "partition_count"]].to_numpy().tolist() == [["global", 3], ["p1", 1]]
        assert set(found["incompatible_schema_hash"]) == {old} and set(found["current_schema_hash"]) == {new}
        assert sum(found["total_size_bytes"]) == sum(row.file_size for row in left.values())
        assert {path for paths in found["file_paths"] for path in paths} == set(left) - {None}

    for name in ("nothing", "x' OR '1' = '1", "'; DROP TABLE x", "ü"):
        for act in (admin.list_incompatible_partitions, admin.retire_incompatible_partitions):
            with pytest.raises(NotFound):
                act(lake.warden, name)
    done = admin.retire_incompatible_partitions(lake.warden, "entries")
    assert list(done.columns) == [
        "view_set_name", "view_instance_id", "partitions_retired", "partitions_failed", "storage_freed_bytes",
        "retirement_messages",
    ]  # fmt: skip
    counts = done[["view_instance_id", "partitions_retired", "partitions_failed"]].to_numpy().tolist()
    assert counts == [["global", 3, 0], ["p1", 1, 0]]
    assert sum(done["storage_freed_bytes"]) == sum(row.file_size for row in left.values())
    assert all(text.startswith("SUCCESS") for texts in done["retirement_messages"] for text in texts)
    assert {row.file_schema_hash for row in logs.viewset.partitions()} == {new}
    assert admin.list_incompatible_partitions(lake.warden).empty
    assert admin.retire_incompatible_partitions(lake.warden).empty
