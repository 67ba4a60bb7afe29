"""`version tag`.

Covers `features/version/refs.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.errors import AlreadyExists, BadValue, SomeFailed, StalePlan, TableNotFound, VersionNotFound
from lakewarden.features.version.refs import Ref
from lakewarden.lifecycle.states import State
from tests.reachability import aged, days_later
from tests.small_lake import ANY_FORMAT, SmallLake


def ends_in(ref: Ref, days: int) -> bool:
    """Whether the keep period ends this many days from now, except for the seconds since it was set."""
    left = ref.kept_until - datetime.now(UTC) if ref.kept_until else timedelta()
    return timedelta(days=days) - timedelta(minutes=1) < left < timedelta(days=days, minutes=1)


def test_tags_the_head_or_any_version(orders: SmallLake) -> None:
    newest, *_, oldest = orders.warden.version.list("sales.orders")

    report = orders.warden.version.tag("sales.orders", "now").apply()
    orders.warden.version.tag(f"sales.orders@{oldest.snapshot_id}", "then", keep="90d", note='it\'s "quoted"').apply()

    assert report.state is State.DONE
    assert report.result["tags"] == 1
    assert orders.refs() == {"main": newest.snapshot_id, "now": newest.snapshot_id, "then": oldest.snapshot_id}
    (then,) = orders.warden.version.show("sales.orders@then").refs
    assert ends_in(then, days=90) and then.note == 'it\'s "quoted"'


def test_a_keep_period_counts_from_now_and_not_from_the_commit_of_the_version(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1].snapshot_id
    aged(orders, "sales.orders", 33)
    planned = orders.warden.version.tag(f"sales.orders@{oldest}", "audit", keep="30d")
    end = datetime.now(UTC) + timedelta(days=30)
    assert planned.plan.actions[0].says.endswith(f", kept 30d, until {end:%Y-%m-%d}")
    assert orders.warden.version.tag(f"sales.orders@{oldest}", "audit", keep="30d").plan.id == planned.plan.id

    report = planned.apply()

    (tag,) = orders.warden.version.show("sales.orders@audit").refs
    assert ends_in(tag, days=30) and tag.kept_until is not None
    assert report.result["kept_until"] == tag.kept_until.isoformat(timespec="seconds")
    (listed,) = orders.warden.version.list("sales.orders", tagged=True)[1:]
    assert (listed.tags, listed.kept_until) == (["audit"], tag.kept_until)
    for days, is_over in ((29.9, False), (30.1, True)):  # Iceberg's own rule, by which every engine expires tags
        days_later(orders, days)
        plan = orders.warden.retention.expire("sales.orders", keep_last=1, keep_days=0, expire_tags=True).plan
        assert ("audit" in str(plan.actions[0].arguments["tags"])) is is_over


def test_a_tag_with_another_end_is_another_tag(lake: SmallLake) -> None:
    lake.create()
    aged(lake, "sales.orders", 33)
    planned = lake.warden.version.tag("sales.orders", "audit", keep="30d")
    planned.apply()

    days_later(lake, 0.5)
    assert lake.warden.version.tag("sales.*", "audit", keep="30d").is_empty
    for days, keep in ((0.5, "20d"), (0.5, "60d"), (0.5, None), (5, "30d")):
        days_later(lake, days)
        (refused,) = lake.warden.version.tag("sales.*", "audit", keep=keep).plan.refused
        assert "already has a tag audit" in refused.message
    assert planned.operation.holds(planned.plan.actions[0], lake.warden.ground)  # a killed run is resumed days later
    days_later(lake, 31)
    assert not planned.operation.holds(planned.plan.actions[0], lake.warden.ground)


@ANY_FORMAT
def test_planning_changes_nothing_and_gives_the_same_plan_twice(orders: SmallLake) -> None:
    before = orders.refs()

    first = orders.warden.version.tag("sales.orders", "v1").plan
    second = orders.warden.version.tag("sales.orders", "v1").plan

    assert first.id == second.id
    assert orders.refs() == before
    orders.append()
    assert orders.warden.version.tag("sales.orders", "v1").plan.id != first.id


@ANY_FORMAT
def test_a_tag_that_exists_is_refused(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "v1").apply()
    before = orders.refs()

    with pytest.raises(AlreadyExists, match="already has a tag v1"):
        orders.warden.version.tag("sales.orders", "v1")

    assert orders.refs() == before


def test_any_name_that_can_be_typed_can_be_a_tag(orders: SmallLake) -> None:
    head = orders.head()
    names = ["a.b", "mit Leerzeichen", "`back`tick", "quote's", "日本", "x" * 255, "2026-01-01", "1"]
    for name in names:
        orders.warden.version.tag("sales.orders", name, note=f"a note on {name}").apply()
    orders.append()

    for name in names:
        shown = orders.warden.version.show("sales.orders@`" + name.replace("`", "``") + "`")
        assert shown.snapshot_id == head, name
        assert {ref.name: ref.note for ref in shown.refs}[name] == f"a note on {name}"


def test_other_names_are_refused(lake: SmallLake) -> None:
    lake.create()
    for name in ("", " ", " lead", "tab\t", "new\nline", "x" * 256):
        with pytest.raises(BadValue, match="name"):
            lake.warden.version.tag("sales.orders", name)


def test_a_keep_period_that_is_none_is_refused(lake: SmallLake) -> None:
    lake.create()
    for keep in ("90", "d", "-1d", "30s", "0d", "1000000000d"):
        with pytest.raises(BadValue, match="keep"):
            lake.warden.version.tag("sales.orders", "v1", keep=keep)


@ANY_FORMAT
def test_a_note_goes_with_its_tag(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "v1", note="old").apply()
    orders.warden.version.untag("sales.orders", "v1").apply()
    orders.warden.version.tag("sales.orders", "v1").apply()

    assert orders.warden.version.show("sales.orders@v1").refs[-1].note == ""
    assert not [key for key in orders.warden.table.show("sales.orders").properties if "note" in key]


def test_a_tag_made_by_someone_else_between_plan_and_apply_is_kept(orders: SmallLake) -> None:
    planned = orders.warden.version.tag("sales.orders", "ours")
    head = orders.head()
    orders.warden.version.tag("sales.orders", "theirs").apply()
    orders.append()

    planned.apply()

    assert orders.refs() == {"main": orders.head(), "ours": head, "theirs": head}


@ANY_FORMAT
def test_the_same_tag_made_elsewhere_by_someone_else_makes_the_plan_stale(orders: SmallLake) -> None:
    planned = orders.warden.version.tag("sales.orders", "v1")
    moved = orders.append()
    orders.warden.version.tag("sales.orders", "v1").apply()
    before = orders.refs()

    with pytest.raises(StalePlan, match=f"ref v1 .* did not exist and is now at {moved}"):
        planned.apply()

    assert orders.refs() == before


class TestManyTables:
    def test_a_pattern_tags_each_table_in_its_own_commit(self, any_lake: SmallLake) -> None:
        names = [f"sales.t{number}" for number in range(3)]
        for name in names:
            any_lake.create(name, appends=1)
        any_lake.create("other.t", appends=1)

        report = any_lake.warden.version.tag("sales.*", "r1").apply()

        assert report.result == {"actions": 3, "subjects": 3, "tags": 3}
        assert [set(any_lake.refs(name)) for name in names] == [{"main", "r1"}] * 3
        assert set(any_lake.refs("other.t")) == {"main"}

    def test_one_stale_table_of_ten_fails_alone(self, any_lake: SmallLake) -> None:
        names = [f"sales.t{number}" for number in range(10)]
        for name in names:
            any_lake.create(name, appends=1)
        planned = any_lake.warden.version.tag("sales.*", "r1")
        moved = any_lake.append("sales.t4")
        any_lake.catalog.load_table("sales.t4").manage_snapshots().create_tag(moved, "r1").commit()

        with pytest.raises(SomeFailed, match=r"1 of 10 failed.*sales\.t4") as failed:
            planned.apply()

        assert [failure["code"] for failure in failed.value.details["failures"]] == ["stale"]
        assert [any_lake.refs(name).get("r1") == any_lake.head(name) for name in names] == [True] * 10
        record = any_lake.warden.operation.show(failed.value.details["operation"])
        assert record.state == "failed"
        assert [step.state for step in record.steps] == ["verified"] * 4 + ["stale"] + ["verified"] * 5

    def test_planning_again_takes_only_what_is_left(self, lake: SmallLake) -> None:
        for name in ("sales.a", "sales.b"):
            lake.create(name, appends=1)
        lake.warden.version.tag("sales.a", "r1").apply()

        planned = lake.warden.version.tag("sales.*", "r1")
        assert planned.plan.subjects == ("main.sales.b",)
        planned.apply()
        assert lake.warden.version.tag("sales.*", "r1").is_empty
        assert lake.warden.version.tag("sales.*", "r1").apply().id is None

    def test_tables_without_versions_are_left_out_and_said(self, lake: SmallLake) -> None:
        lake.create("sales.a", appends=1)
        lake.create("sales.empty", appends=0)

        plan = lake.warden.version.tag("sales.*", "r1").plan

        assert plan.subjects == ("main.sales.a",)
        assert plan.warnings == ("skipped: main.sales.empty has no versions yet",)

    def test_a_ref_that_no_table_has(self, lake: SmallLake) -> None:
        lake.create()
        with pytest.raises(VersionNotFound, match="no table has the version sales"):
            lake.warden.version.tag("sales.*@nosuch", "r1")

    def test_a_pattern_that_matches_nothing(self, lake: SmallLake) -> None:
        lake.create()
        with pytest.raises(TableNotFound, match=r"no table matches shop\.\*"):
            lake.warden.version.tag("shop.*", "r1")

    def test_a_tag_that_is_there_with_another_keep_is_refused_and_the_others_are_tagged(self, lake: SmallLake) -> None:
        for name in ("sales.a", "sales.b"):
            lake.create(name, appends=1)
        lake.warden.version.tag("sales.a", "r1", keep="1d").apply()

        planned = lake.warden.version.tag("sales.*", "r1", keep="365d")
        with pytest.raises(SomeFailed, match=r"1 of 2 failed.*main\.sales\.a already has a tag r1"):
            planned.apply()

        assert "r1" in lake.refs("sales.b")
        (kept,) = [ref for ref in lake.warden.table.show("sales.a").refs if ref.name == "r1"]
        assert ends_in(kept, days=1)

    def test_a_broken_table_does_not_hold_up_the_others(self, lake: SmallLake) -> None:
        for name in ("sales.a", "sales.b"):
            lake.create(name, appends=1)
        Path(lake.catalog.load_table("sales.a").metadata_location.removeprefix("file://")).write_text("{")

        with pytest.raises(SomeFailed, match="main.sales.a: .*its metadata cannot be read"):
            lake.warden.version.tag("sales.*", "r1").apply()

        assert "r1" in lake.refs("sales.b")


@pytest.mark.spark
def test_v3_a_tag_that_somebody_else_was_quicker_to_make_keeps_its_own_note(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create(format=3)
    planned = lake.warden.version.tag("sales.orders", "v1", note="ours")
    assert [action.verb for action in planned.plan.actions] == ["tag", "note"]
    oldest = lake.warden.version.list("sales.orders")[-1].snapshot_id
    spark, sql = lake.warden.ground.spark, lake.warden.ground.spark.sql

    def quicker(statement: str, **values: object) -> object:
        if "CREATE TAG" in statement:
            sql(f"ALTER TABLE main.sales.orders CREATE TAG v1 AS OF VERSION {oldest}")
        return sql(statement, **values)

    monkeypatch.setattr(spark, "sql", quicker)
    with pytest.raises(StalePlan, match=f"ref v1 of main.sales.orders moved from nowhere to {oldest}"):
        planned.apply()

    (theirs,) = [ref for ref in lake.warden.table.show("sales.orders").refs if ref.name == "v1"]
    assert (theirs.snapshot_id, theirs.note) == (oldest, "")
