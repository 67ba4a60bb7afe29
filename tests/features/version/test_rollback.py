"""`version rollback`."""

from __future__ import annotations

import pytest

from lakewarden.errors import BadReference, NotAncestor, StalePlan
from tests.small_lake import SmallLake


def test_makes_an_earlier_version_current_and_keeps_the_one_left_behind(orders: SmallLake) -> None:
    newest, *_, oldest = orders.warden.version.list("sales.orders")

    report = orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()

    left = f"before-rollback-{newest.snapshot_id}"
    assert report.result["refs_moved"] == 1
    assert orders.refs() == {"main": oldest.snapshot_id, left: newest.snapshot_id}
    assert orders.ids() == [0, 1]
    assert len(orders.warden.version.read(f"sales.orders@{left}", limit=100)) == 6


def test_writers_go_on_from_there(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1]
    orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()

    orders.append()

    assert orders.ids() == [0, 1, 2, 3]


def test_there_and_back_again(orders: SmallLake) -> None:
    newest, *_, oldest = orders.warden.version.list("sales.orders")
    orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()

    with pytest.raises(NotAncestor, match="--not-ancestor") as refused:
        raise_with_hint(orders, f"sales.orders@before-rollback-{newest.snapshot_id}")
    assert "is not an ancestor" in refused.value.message
    back = f"sales.orders@before-rollback-{newest.snapshot_id}"
    orders.warden.version.rollback(back, not_ancestor=True).apply()

    assert orders.head() == newest.snapshot_id
    assert orders.refs()[f"before-rollback-{oldest.snapshot_id}"] == oldest.snapshot_id
    orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()
    assert orders.head() == oldest.snapshot_id


def raise_with_hint(orders: SmallLake, version: str) -> None:
    try:
        orders.warden.version.rollback(version)
    except NotAncestor as error:
        error.args = (f"{error.message} {error.hint}",)
        raise


def test_to_where_it_is_already_does_nothing(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "v1").apply()
    assert orders.warden.version.rollback("sales.orders@v1").is_empty
    assert orders.warden.version.rollback("sales.orders@v1").apply().result["actions"] == 0


def test_needs_a_version_to_go_to(lake: SmallLake) -> None:
    lake.create()
    with pytest.raises(BadReference, match="names no version"):
        lake.warden.version.rollback("sales.orders")


def test_a_commit_in_between_makes_the_plan_stale_and_is_kept(orders: SmallLake) -> None:
    newest, *_, oldest = orders.warden.version.list("sales.orders")
    planned = orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}")
    theirs = orders.append()
    before = orders.refs()

    with pytest.raises(StalePlan, match=f"ref main of main.sales.orders moved from {newest.snapshot_id} to {theirs}"):
        planned.apply()

    assert orders.refs() == before
    assert orders.head() == theirs


def test_says_what_readers_will_see(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1]
    (warning,) = orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").plan.warnings
    assert "rows go from 6 to 2" in warning


def test_v2_moves_both_refs_in_one_commit(lake: SmallLake) -> None:
    lake.create()
    oldest = lake.warden.version.list("sales.orders")[-1]
    commits = len(lake.metadata_files())

    lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()

    assert len(lake.metadata_files()) == commits + 1


@pytest.mark.spark
def test_v3_goes_through_spark_and_the_plan_says_so(lake: SmallLake) -> None:
    lake.create(format=3)
    oldest = lake.warden.version.list("sales.orders")[-1]
    plan = lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").plan
    assert [(action.verb, action.route) for action in plan.actions] == [("keep", "spark-sql"), ("move", "spark-sql")]
    assert "format v3" in plan.actions[0].because


@pytest.mark.spark
def test_v3_puts_back_a_commit_that_slipped_in_right_before_the_move(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create(format=3)
    oldest = lake.warden.version.list("sales.orders")[-1]
    planned = lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}")
    spark, sql = lake.warden.ground.spark, lake.warden.ground.spark.sql
    theirs: list[int] = []

    def slip_in(statement: str, **values: object) -> object:
        if "set_current_snapshot" in statement and not theirs:
            sql("INSERT INTO main.sales.orders VALUES (99, 'Chur')")
            theirs.append(lake.head())
        return sql(statement, **values)

    monkeypatch.setattr(spark, "sql", slip_in)
    with pytest.raises(StalePlan, match="moved from"):
        planned.apply()

    assert lake.head() == theirs[0]
    assert 99 in lake.ids()
