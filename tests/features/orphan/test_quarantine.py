"""`orphan quarantine`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.engine.storage.storage import Storage
from lakewarden.errors import DeletionForbidden, SomeFailed, StalePlan
from tests.features.orphan.orphans import age, age_all, contents, folder, plant, set_property
from tests.small_lake import SmallLake

DAYS_AGO = f"TIMESTAMP '{datetime.now(UTC) - timedelta(days=3):%Y-%m-%d %H:%M:%S}'"
PLANTED = ("data/a.parquet", "data/city=Bern/b.parquet", "metadata/c.avro")


@pytest.fixture
def littered(lake: SmallLake) -> SmallLake:
    lake.create()
    age_all(lake)
    plant(lake, *PLANTED)
    return lake


def test_orphans_are_put_away_and_everything_else_stays(littered: SmallLake) -> None:
    lake, before = littered, contents(littered)

    report = lake.warden.orphan.quarantine("sales.orders").apply()

    assert report.result["files_quarantined"] == 3
    assert report.result["bytes_quarantined"] == 15
    assert report.result["files_kept"] == 0
    assert contents(lake) == {name: sum for name, sum in before.items() if name not in PLANTED}
    assert lake.ids() == [0, 1, 2, 3, 4, 5]
    (batch,) = lake.warden.orphan.list()
    assert (batch.table, batch.reason, batch.files, batch.bytes) == ("main.sales.orders", "orphan", 3, 15)
    assert batch.delete_after - batch.made_at == timedelta(days=7)
    assert batch.id.startswith(str(report.id))


def test_on_each_format_and_control_database(orders: SmallLake) -> None:
    plant(orders, "data/a.parquet")
    orders.warden.orphan.quarantine("sales.orders").apply()
    assert orders.ids() == [0, 1, 2, 3, 4, 5]
    assert orders.warden.orphan.quarantine("sales.orders").is_empty


def test_the_plan_lists_every_file_and_changes_nothing(littered: SmallLake) -> None:
    before = contents(littered)
    plan = littered.warden.orphan.quarantine("sales.orders").plan
    (action,) = plan.actions
    top = f"file://{folder(littered)}"
    assert [(file.path, file.bytes, file.kind) for file in action.files.items] == [
        (f"{top}/data/a.parquet", 5, "data"),
        (f"{top}/data/city=Bern/b.parquet", 5, "data"),
        (f"{top}/metadata/c.avro", 5, "manifest"),
    ]
    assert littered.warden.orphan.quarantine("sales.orders").plan.id == plan.id
    assert contents(littered) == before


def test_a_second_run_right_after_plans_nothing(littered: SmallLake) -> None:
    littered.warden.orphan.quarantine("sales.orders").apply()
    assert littered.warden.orphan.quarantine("sales.orders").is_empty


def test_destructive_nothing_happens_until_apply_is_said(littered: SmallLake) -> None:
    before = contents(littered)
    shown = json.loads(littered.run("orphan", "quarantine", "sales.orders", "--json").stdout)["plan"]
    assert shown["actions"][0]["files"]["count"] == 3
    assert contents(littered) == before
    littered.run("operation", "apply", shown["id"])
    assert len(contents(littered)) == len(before) - 3


def test_no_file_that_the_plan_did_not_list(littered: SmallLake) -> None:
    planned = littered.warden.orphan.quarantine("sales.orders")
    plant(littered, "data/later.parquet")
    planned.apply()
    assert "data/later.parquet" in contents(littered)


class TestLookedAtAgainRightBefore:
    def kept(self, lake: SmallLake, planned: Any, name: str) -> None:
        before = contents(lake)[name]
        report = planned.apply()
        assert (report.result["files_quarantined"], report.result["files_kept"]) == (2, 1)
        assert contents(lake)[name] == before

    def test_a_file_that_was_written_anew(self, littered: SmallLake) -> None:
        planned = littered.warden.orphan.quarantine("sales.orders")
        plant(littered, "data/a.parquet", content="other", days=0)  # of the same size
        self.kept(littered, planned, "data/a.parquet")

    def test_a_file_of_another_size(self, littered: SmallLake) -> None:
        planned = littered.warden.orphan.quarantine("sales.orders")
        plant(littered, "data/a.parquet", content="another size")
        self.kept(littered, planned, "data/a.parquet")

    def test_a_file_that_has_become_part_of_the_table(self, lake: SmallLake) -> None:
        lake.create()
        shutil.copy(next((folder(lake) / "data").glob("*.parquet")), folder(lake) / "data/a.parquet")
        age_all(lake)
        plant(lake, *PLANTED[1:])
        planned = lake.warden.orphan.quarantine("sales.orders")
        lake.catalog.load_table("sales.orders").add_files(
            [f"file://{folder(lake)}/data/a.parquet"], check_duplicate_files=False
        )
        self.kept(lake, planned, "data/a.parquet")
        assert len(lake.ids()) == 8

    def test_a_file_that_is_gone(self, littered: SmallLake) -> None:
        planned = littered.warden.orphan.quarantine("sales.orders")
        (folder(littered) / "data/a.parquet").unlink()
        report = planned.apply()
        assert (report.result["files_quarantined"], report.result["files_kept"]) == (2, 1)

    def test_a_table_that_forbids_it_now(self, littered: SmallLake) -> None:
        planned = littered.warden.orphan.quarantine("sales.orders")
        set_property(littered, "gc.enabled", "false")
        before = contents(littered)
        with pytest.raises(DeletionForbidden):
            planned.apply()
        assert contents(littered) == before

    def test_another_table_of_the_same_name(self, littered: SmallLake) -> None:
        planned = littered.warden.orphan.quarantine("sales.orders")
        littered.catalog.drop_table("sales.orders")
        littered.create()
        with pytest.raises(StalePlan, match="was recreated"):
            planned.apply()
        assert set(PLANTED) <= set(contents(littered))


def test_a_file_that_is_committed_in_the_moment_it_is_moved_comes_back(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create()
    shutil.copy(next((folder(lake) / "data").glob("*.parquet")), folder(lake) / "data/a.parquet")
    age_all(lake)
    plant(lake, *PLANTED[1:])
    move_all: Callable[..., Any] = Storage.move_all

    def meddled(self: Storage, *asked: Any) -> Any:
        table = lake.catalog.load_table("sales.orders")
        table.add_files([f"file://{folder(lake)}/data/a.parquet"], check_duplicate_files=False)
        return move_all(self, *asked)

    monkeypatch.setattr(Storage, "move_all", meddled)
    report = lake.warden.orphan.quarantine("sales.orders").apply()

    assert (report.result["files_quarantined"], report.result["files_kept"]) == (2, 1)
    assert report.result["bytes_quarantined"] == 10
    assert len(lake.ids()) == 8


def test_many_tables_each_by_itself(lake: SmallLake) -> None:
    for name in ("sales.a", "sales.b", "sales.c"):
        lake.create(name, appends=1)
        plant(lake, "data/x", table=name)
    set_property(lake, "gc.enabled", "false", "sales.b")

    with pytest.raises(SomeFailed, match="1 of 3 failed.*gc.enabled"):
        lake.warden.orphan.quarantine(all=True).apply()

    assert ["data/x" in contents(lake, name) for name in ("sales.a", "sales.b", "sales.c")] == [False, True, False]


def test_very_many_files_are_several_batches(littered: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewarden.features.orphan import quarantine

    monkeypatch.setattr(quarantine, "_MOST_FILES", 2)
    report = littered.warden.orphan.quarantine("sales.orders").apply()
    assert report.result["files_quarantined"] == 3
    assert [batch.files for batch in littered.warden.orphan.list()] in ([2, 1], [1, 2])
    assert littered.warden.orphan.restore(str(report.id)).apply().result["files_restored"] == 3
    assert littered.warden.orphan.list() == []


def test_icebergs_own_clients_do_not_see_what_is_put_away(littered: SmallLake) -> None:
    """Names that begin with an underscore are hidden from them, so nobody's clean-up takes the quarantine away."""
    littered.warden.orphan.quarantine("sales.orders").apply()
    hidden = [path.relative_to(folder(littered)) for path in folder(littered).rglob("*batch.json")]
    assert [path.parts[0] for path in hidden] == ["_lakewarden"]


@pytest.mark.spark
def test_nor_does_icebergs_own_removal_of_orphans_on_spark(littered: SmallLake) -> None:
    littered.warden.orphan.quarantine("sales.orders").apply()
    for path in (folder(littered) / "_lakewarden").rglob("*"):
        age(path, 100)
    sql = littered.warden.ground.spark.sql
    sql(f"CALL main.system.remove_orphan_files(table => 'sales.orders', older_than => {DAYS_AGO})")
    (batch,) = littered.warden.orphan.list()
    assert littered.warden.orphan.restore(batch.id).apply().result["files_restored"] == 3


@pytest.mark.spark
def test_finds_what_icebergs_own_removal_would_find(littered: SmallLake) -> None:
    sql = littered.warden.ground.spark.sql
    theirs = sql(
        f"CALL main.system.remove_orphan_files(table => 'sales.orders', dry_run => true, older_than => {DAYS_AGO})"
    ).collect()
    ours = littered.warden.orphan.find("sales.orders", files=True)
    assert {Path(row["orphan_file_location"].removeprefix("file:")) for row in theirs} == {
        Path(row.path.removeprefix("file://")) for row in ours
    }


def test_a_file_that_cannot_be_moved_is_told_and_the_rest_is_done_at_the_next_try(littered: SmallLake) -> None:
    """The place in quarantine is taken by somebody else's file."""
    planned = littered.warden.orphan.quarantine("sales.orders")
    (action,) = planned.plan.actions
    id = planned.store()
    place = folder(littered) / f"_lakewarden/quarantine/{id}-{action.id}/files/000001-a.parquet"
    place.parent.mkdir(parents=True)
    place.write_text("in the way")

    littered.run("operation", "apply", id, check=1)
    assert "data/a.parquet" in contents(littered)
    place.unlink()
    littered.run("operation", "resume", id)

    assert not set(PLANTED) & set(contents(littered))
    (batch,) = littered.warden.orphan.list()
    assert batch.files == 3
