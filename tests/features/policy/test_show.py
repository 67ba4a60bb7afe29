"""`policy show`: each value that holds for a table, and where it was said."""

from __future__ import annotations

import json

import pytest

from lakewarden.errors import TableNotFound
from tests.features.retention.test_expire import configure
from tests.small_lake import SmallLake


def shown(lake: SmallLake, table: str) -> dict[tuple[str, str], tuple[str, str]]:
    return {(row.policy, row.name): (row.value, row.source) for row in lake.warden.policy.show(table)}


def test_a_table_that_nothing_is_said_of(lake: SmallLake) -> None:
    lake.create("sales.orders", appends=0)
    found = shown(lake, "sales.orders")
    assert found["retention", "keep_last"] == ("30", "defaults")
    assert found["retention", "production"] == ("no", "defaults")
    assert found["compaction", "target_file_size_mb"] == ("512", "defaults")
    assert found["quarantine", "expired_files"] == ("auto", "quarantine")
    assert ("policy", "skip") not in found and ("retention", "gc.enabled") not in found


def test_every_source(lake: SmallLake) -> None:
    lake.create("gold.orders", appends=0)
    with lake.catalog.load_table("gold.orders").transaction() as change:
        change.set_properties(
            {
                "history.expire.min-snapshots-to-keep": "7",
                "write.target-file-size-bytes": str(64 << 20),
                "gc.enabled": "false",
            }
        )
    configure(
        lake,
        tables={"gold.*": {"retention": {"production_keep_days": 400}}, "gold.orders": {"skip": True}},
        defaults={"retention": {"keep_tagged": False}},
    )
    found = shown(lake, "gold.orders")
    assert found["retention", "keep_last"] == ("7", "table property")
    assert found["retention", "production_keep_days"] == ("400", "tables: gold.*")
    assert found["retention", "keep_tagged"] == ("no", "defaults")
    assert found["retention", "production"] == ("yes", "layer gold")
    assert found["compaction", "target_file_size_mb"] == ("64", "table property")
    assert found["policy", "skip"][0] == "yes"
    assert found["retention", "gc.enabled"] == ("false: no file may be deleted", "table property")


def test_at_the_command_line(lake: SmallLake) -> None:
    lake.create("bronze.orders", appends=0)
    rows = json.loads(lake.run("policy", "show", "bronze.orders", "--json").stdout)
    assert {"policy": "retention", "name": "keep_days", "value": "30", "source": "layer bronze"} in rows


def test_a_table_that_is_not_there(lake: SmallLake) -> None:
    with pytest.raises(TableNotFound):
        lake.warden.policy.show("sales.nothing")
