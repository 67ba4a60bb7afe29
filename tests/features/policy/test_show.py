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
    expected = {"policy": "retention", "name": "keep_days", "value": "30", "source": "layer bronze"}
    assert {"table": "main.bronze.orders", **expected} in rows


def test_a_table_that_is_not_there(lake: SmallLake) -> None:
    with pytest.raises(TableNotFound):
        lake.warden.policy.show("sales.nothing")


def test_a_pattern_shows_each_of_its_tables_skipped_ones_too(lake: SmallLake) -> None:
    for name in ("sales.orders", "sales.lines", "crm.people"):
        lake.create(name, appends=0)
    configure(lake, tables={"sales.lines": {"skip": True}})
    rows = lake.warden.policy.show("sales.*")
    assert {row.table for row in rows} == {"main.sales.orders", "main.sales.lines"}
    assert [row.table for row in rows if row.name == "skip"] == ["main.sales.lines"]
    with pytest.raises(TableNotFound):
        lake.warden.policy.show("none.*")


def test_lines_of_the_configuration_that_do_nothing(lake: SmallLake) -> None:
    lake.create("sales.orders", appends=0)
    configure(
        lake,
        tables={"sales.ordrs": {"skip": True}, "flink.*": {"skip": True}, "main.sales.*": {"production": True}},
        subjects={"customer": {"sales.orders": "emial", "crm.people": "id"}, "city": {"sales.orders": "city"}},
    )
    for asked in ("sales.orders", "sales.*"):
        found = {row.name: row.value for row in lake.warden.policy.show(asked) if row.policy == "configuration"}
        assert found == {
            "tables: sales.ordrs": "matches no table. Did you mean sales.orders?",
            "tables: flink.*": "matches no table. Correct or remove it; lakewarden table list shows all tables.",
            "subjects: customer: sales.orders": "main.sales.orders has no column emial. It has id, city.",
            "subjects: customer: crm.people": (
                "no table crm.people in lake 'main'. lakewarden table list shows all 1 tables."
            ),
        }
    doctor = {c.part: (c.state, c.found) for c in lake.warden.lake.doctor(skip_spark=True) if ": " in c.part}
    assert {part: doctor[part] for part in found} == {
        part: ("warning", told.partition(". ")[0]) for part, told in found.items()
    }
    lake.run("lake", "doctor", "--skip-spark")  # a warning is no failure
