"""`orphan delete`."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta

import pytest

from lakewarden.errors import BadValue, DeletionForbidden, NotFound, StalePlan
from tests.features.orphan.orphans import age_all, contents, folder, plant, set_property
from tests.small_lake import SmallLake


@pytest.fixture
def put_away(lake: SmallLake) -> SmallLake:
    lake.create()
    plant(lake, "data/a.parquet", "data/b.parquet")
    lake.warden.orphan.quarantine("sales.orders").apply()
    return lake


@pytest.fixture
def later(put_away: SmallLake, monkeypatch: pytest.MonkeyPatch) -> SmallLake:
    """Eight days later: the grace is over."""
    clock = put_away.warden.ground.clock
    monkeypatch.setattr(put_away.warden.ground, "clock", lambda: clock() + timedelta(days=8))
    return put_away


def stored_at_all(lake: SmallLake) -> set[str]:
    return {path.name for path in folder(lake).rglob("*") if path.is_file()}


def test_within_the_grace_nothing_is_deleted(put_away: SmallLake) -> None:
    planned = put_away.warden.orphan.delete("sales.orders")
    assert planned.is_empty
    assert "its grace ends at" in planned.plan.warnings[0]


def test_after_the_grace_it_is_gone_for_good(later: SmallLake) -> None:
    before = contents(later)

    report = later.warden.orphan.delete("sales.orders").apply()

    assert (report.result["files_deleted"], report.result["bytes_freed"]) == (2, 10)
    assert contents(later) == before
    assert not (folder(later) / "_lakewarden").exists()
    assert later.warden.orphan.delete("sales.orders").is_empty
    assert later.ids() == [0, 1, 2, 3, 4, 5]


def test_now_does_not_wait_for_the_grace(put_away: SmallLake) -> None:
    report = put_away.warden.orphan.delete(all=True, now=True).apply()
    assert report.result["files_deleted"] == 2
    assert put_away.warden.orphan.list() == []


def test_destructive_only_with_apply(put_away: SmallLake) -> None:
    shown = json.loads(put_away.run("orphan", "delete", "--all", "--now", "--json").stdout)["plan"]
    assert shown["actions"][0]["files"]["count"] == 2
    assert len(put_away.warden.orphan.list()) == 1


def test_one_batch_wherever_it_is(put_away: SmallLake) -> None:
    put_away.create("web.events", appends=1)
    plant(put_away, "data/x", table="web.events")
    put_away.warden.orphan.quarantine("web.events").apply()
    first, second = put_away.warden.orphan.list()
    put_away.warden.orphan.delete(batch=second.id, now=True).apply()
    assert put_away.warden.orphan.list() == [first]
    with pytest.raises(NotFound):
        put_away.warden.orphan.delete(batch=second.id, now=True)
    with pytest.raises(NotFound):
        put_away.warden.orphan.delete("web.events", batch=first.id, now=True)


def test_which_tables_must_be_said(lake: SmallLake) -> None:
    with pytest.raises(BadValue):
        lake.warden.orphan.delete()


def test_a_file_that_a_version_leads_to_again_is_not_deleted(lake: SmallLake) -> None:
    """Invariant 1: somebody has made it part of the table since."""
    lake.create()
    shutil.copy(next((folder(lake) / "data").glob("*.parquet")), folder(lake) / "data/a.parquet")
    age_all(lake)
    plant(lake, "data/b.parquet")
    lake.warden.orphan.quarantine("sales.orders").apply()
    (batch,) = lake.warden.orphan.list()
    kept = next(folder(lake).rglob("*-a.parquet"))
    shutil.copy(kept, folder(lake) / "data/a.parquet")
    lake.catalog.load_table("sales.orders").add_files(
        [f"file://{folder(lake)}/data/a.parquet"], check_duplicate_files=False
    )
    (folder(lake) / "data/a.parquet").unlink()

    with pytest.raises(DeletionForbidden, match="a version references 1 files") as refused:
        lake.warden.orphan.delete("sales.orders", now=True).apply()

    assert refused.value.hint == f"Restore them: lakewarden orphan restore {batch.id}"
    lake.warden.orphan.restore(batch.id).apply()
    assert len(lake.ids()) == 8


def test_gc_enabled_false_forbids_it(put_away: SmallLake) -> None:
    set_property(put_away, "gc.enabled", "false")
    with pytest.raises(DeletionForbidden, match="gc.enabled"):
        put_away.warden.orphan.delete("sales.orders", now=True).apply()
    assert len(put_away.warden.orphan.list()) == 1


def test_a_plan_of_other_files_is_stale(put_away: SmallLake) -> None:
    planned = put_away.warden.orphan.delete("sales.orders", now=True)
    record = next(folder(put_away).rglob("batch.json"))
    batch = json.loads(record.read_text())
    batch["files"] = batch["files"][:1]
    record.write_text(json.dumps(batch))
    with pytest.raises(StalePlan, match="the files of batch .* changed"):
        planned.apply()
    assert len(list(folder(put_away).rglob("0*-?.parquet"))) == 2


def test_what_an_earlier_table_of_the_same_place_left_is_deleted_only_by_name(later: SmallLake) -> None:
    (batch,) = later.warden.orphan.list()
    later.catalog.drop_table("sales.orders")
    later.create()
    planned = later.warden.orphan.delete("sales.orders")
    assert planned.is_empty
    assert f"--batch {batch.id}" in planned.plan.warnings[0]
    assert later.warden.orphan.delete(batch=batch.id).apply().result["files_deleted"] == 2


def test_one_table_that_cannot_be_read_does_not_hold_up_the_others(put_away: SmallLake) -> None:
    put_away.create("web.events", appends=1)
    plant(put_away, "data/x", table="web.events")
    put_away.warden.orphan.quarantine("web.events").apply()
    next(folder(put_away, "web.events").rglob("batch.json")).write_text("{")
    plan = put_away.warden.orphan.delete(all=True, now=True).plan
    assert [action.subject for action in plan.actions] == ["main.sales.orders"]
    assert [finding.subject for finding in plan.refused] == ["main.web.events"]
