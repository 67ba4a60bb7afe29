"""`table health`: what an engineer opens in the morning. The command it names makes the table better."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import LakewardenError
from tests.cases import in_soak
from tests.features.retention.test_expire import configure
from tests.reachability import aged, on_disk
from tests.small_lake import SCHEMA, SmallLake

WELL, SMALL, OLD = "sales.well", "sales.small", "archive.old"


@pytest.fixture
def ward(lake: SmallLake) -> SmallLake:
    """A table that is well, one with many small files, and one with versions past their time."""
    lake.create(WELL, appends=2)
    lake.create(SMALL, appends=14)
    lake.create(OLD, appends=10)
    configure(lake, tables={"archive.*": {"retention": {"keep_last": 1, "keep_days": 0}}})
    return lake


def rows(lake: SmallLake, **options: Any) -> dict[str, Any]:
    return {row.table.removeprefix("main."): row for row in lake.warden.table.health(**options)}


def test_the_worst_first(ward: SmallLake) -> None:
    found = ward.warden.table.health()
    assert [row.table for row in found] == [f"main.{name}" for name in (SMALL, OLD, WELL)]
    assert found[0].score < found[1].score < found[2].score == 100
    well = found[-1]
    assert (well.worst, well.next, well.files, well.snapshots, well.last_upkeep) == ("", "", 2, 2, None)


def test_each_symptom_is_told_with_what_mends_it(ward: SmallLake) -> None:
    found = rows(ward)
    assert found[SMALL].worst == "13 of 14 files too many"
    assert found[SMALL].next == "lakewarden compaction compact main.sales.small"
    assert (found[SMALL].files, found[SMALL].small_files, found[SMALL].manifests) == (14, 14, 14)
    assert found[OLD].worst == "9 of 10 versions too old"
    assert found[OLD].next == "lakewarden retention expire main.archive.old"
    assert found[OLD].metadata == on_disk(ward.catalog.load_table(OLD).metadata_location).stat().st_size


def test_which_tables(ward: SmallLake) -> None:
    assert set(rows(ward, namespace="sales")) == {WELL, SMALL}
    assert len(ward.warden.table.health(worst=1)) == 1
    assert set(rows(ward, table="sales.w*")) == {WELL}
    assert ward.warden.table.health(WELL)[0].score == 100
    configure(ward, tables={"archive.*": {"skip": True}})
    assert OLD not in rows(ward) and OLD in rows(ward, table=OLD)


def test_the_command_that_is_named_raises_the_score_until_there_is_none(ward: SmallLake) -> None:
    """As it is typed, where no Spark is needed; the whole way with Spark is below."""
    scores, commands = [], []
    while (row := ward.warden.table.health(OLD)[0]).next:
        scores.append(row.score)
        commands.append(row.next)
        ward.run(*row.next.split()[1:], "--apply")
        assert ward.warden.table.health(OLD)[0].score > row.score, row.next
    assert commands == [f"lakewarden {what} main.{OLD}" for what in ("retention expire", "compaction manifests")]
    assert row.score == 100 and row.last_upkeep is not None and len(set(scores)) == 2


@pytest.mark.spark
def test_the_whole_way_to_a_hundred(lake: SmallLake) -> None:
    lake.create("sales.ill", appends=35)
    lake.warden.ground.spark.sql(
        "ALTER TABLE main.sales.ill SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    ).collect()
    lake.warden.ground.spark.sql("DELETE FROM main.sales.ill WHERE id % 2 = 1").collect()
    aged(lake, "sales.ill", 100)
    content = lake.ids("sales.ill")
    scores, commands = [], []
    while True:
        (row,) = lake.warden.table.health("sales.ill")
        scores.append(row.score)
        if not row.next:
            break
        commands.append(row.next)
        noun, verb, table = row.next.split()[1:]
        getattr(getattr(lake.warden, noun), verb)(table).apply()
        assert lake.ids("sales.ill") == content
    assert scores == sorted(set(scores)) and scores[0] < 50 and scores[-1] == 100, scores
    assert "lakewarden compaction compact main.sales.ill" in commands


class TestBrokenTables:
    def test_are_listed_first_with_their_problem(self, ward: SmallLake) -> None:
        table = ward.catalog.load_table(WELL)
        lost = on_disk(table.current_snapshot().manifest_list)
        lost.unlink()
        on_disk(ward.catalog.load_table(SMALL).metadata_location).write_text("{")
        first, second, *others = ward.warden.table.health()
        assert {first.table, second.table} == {f"main.{WELL}", f"main.{SMALL}"}
        assert (first.score, second.score) == (0, 0) and others[0].score > 0
        problems = {row.table: row.worst for row in (first, second)}
        assert lost.name in problems[f"main.{WELL}"] and "metadata cannot be read" in problems[f"main.{SMALL}"]

    @pytest.mark.parametrize("content", [b"Obj\x01garbage", *in_soak(b"", b"\xff" * 500, bytes(500))])
    def test_a_manifest_that_is_garbage(self, ward: SmallLake, content: bytes) -> None:
        table = ward.catalog.load_table(WELL)
        on_disk(table.current_snapshot().manifests(table.io)[0].manifest_path).write_bytes(content)
        found = rows(ward)
        assert found[WELL].score == 0 and found[WELL].worst
        assert set(found) == {WELL, SMALL, OLD}

    def test_one_that_is_named_says_what_is_wrong(self, ward: SmallLake) -> None:
        on_disk(ward.catalog.load_table(WELL).metadata_location).unlink()
        with pytest.raises(LakewardenError, match=r"main\.sales\.well"):
            ward.warden.table.health(WELL)


def test_a_table_that_was_never_written(lake: SmallLake) -> None:
    lake.create("sales.empty", appends=0)
    (row,) = lake.warden.table.health("sales.empty")
    assert (row.score, row.files, row.snapshots, row.next) == (100, 0, 0, "")


def test_old_versions_that_may_not_go_are_no_complaint(lake: SmallLake) -> None:
    lake.create("sales.shared", appends=3)
    with lake.catalog.load_table("sales.shared").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    configure(lake, defaults={"retention": {"keep_last": 1, "keep_days": 0}})
    (row,) = lake.warden.table.health("sales.shared")
    assert (row.score, row.next) == (100, "")


@pytest.mark.spark
def test_few_deleted_rows_are_no_complaint(lake: SmallLake) -> None:
    """Rows that no compaction would take out yet cost no points: the command that is named must do something."""
    lake.create("sales.few", appends=0)
    table = lake.catalog.load_table("sales.few")
    with table.transaction() as change:
        change.set_properties({"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": list(range(100)), "city": ["x"] * 100}, schema=SCHEMA))
    lake.warden.ground.spark.sql("DELETE FROM main.sales.few WHERE id = 7").collect()
    (row,) = lake.warden.table.health("sales.few")
    assert (row.score, row.next, row.deleted_rows, row.delete_files) == (100, "", 1, 1)
    assert lake.warden.compaction.compact("sales.few").is_empty


def test_without_a_jvm(ward: SmallLake, tmp_path: Path) -> None:
    """At the command line, where there is no java to be found at all."""
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        ward.command("table", "health", "--json"), env=environment, capture_output=True, text=True, check=True
    )
    assert {row["table"] for row in json.loads(done.stdout)} == {f"main.{name}" for name in (WELL, SMALL, OLD)}
