"""`version rollback`."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.errors import BadReference, NotAncestor, StalePlan, VerificationFailed
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

    with pytest.raises(NotAncestor, match="is not an ancestor") as refused:
        orders.warden.version.rollback(f"sales.orders@before-rollback-{newest.snapshot_id}")
    assert "--not-ancestor" in refused.value.hint
    back = f"sales.orders@before-rollback-{newest.snapshot_id}"
    orders.warden.version.rollback(back, not_ancestor=True).apply()

    assert orders.head() == newest.snapshot_id
    assert orders.refs()[f"before-rollback-{oldest.snapshot_id}"] == oldest.snapshot_id
    orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()
    assert orders.head() == oldest.snapshot_id


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


def test_a_commit_on_top_of_a_state_that_is_tagged_already_does_not_count_as_rolled_back(lake: SmallLake) -> None:
    """The tag of an earlier rollback stands, so only where main is tells whether it went back."""
    lake.create()
    newest, *_, oldest = lake.warden.version.list("sales.orders")
    there = lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}")
    there.apply()
    lake.warden.version.rollback(f"sales.orders@{newest.snapshot_id}", not_ancestor=True).apply()
    again = lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}")
    theirs = lake.append()

    with pytest.raises(StalePlan, match="ref main"):
        again.apply()
    assert lake.head() == theirs


class Interloper:
    """Another writer that commits right before or after a statement of ours."""

    def __init__(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, marker: str, after: bool = False) -> None:
        self.theirs: list[int] = []
        spark = lake.warden.ground.spark
        sql = spark.sql

        def meddled(statement: str, **values: object) -> object:
            hit = marker in statement and not self.theirs
            result = sql(statement, **values).collect() if hit and after else None
            if hit:
                sql("INSERT INTO main.sales.orders VALUES (99, 'Chur')")
                self.theirs.append(lake.head())
            return sql("SELECT 1") if result is not None else sql(statement, **values)

        monkeypatch.setattr(spark, "sql", meddled)


@pytest.mark.spark
class TestFormatThreeBesideOtherWriters:
    """On Spark a statement commits on whatever head it finds: nobody's commit may end up under no name."""

    def planned(self, lake: SmallLake) -> Any:
        lake.create(format=3)
        oldest = lake.warden.version.list("sales.orders")[-1]
        return lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}")

    def test_a_commit_right_before_the_move_is_put_back(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        planned = self.planned(lake)
        other = Interloper(lake, monkeypatch, "set_current_snapshot")

        with pytest.raises(StalePlan, match="moved from .* to .* meanwhile") as refused:
            planned.apply()

        assert lake.head() == other.theirs[0]
        assert 99 in lake.ids()
        assert "main is back on it" in refused.value.hint

    def test_a_commit_right_after_the_move_stays(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        planned = self.planned(lake)
        other = Interloper(lake, monkeypatch, "set_current_snapshot", after=True)

        assert planned.apply().state == "done"

        assert lake.head() == other.theirs[0]
        assert lake.ids() == [0, 1, 99]

    def test_a_commit_between_the_two_steps_makes_it_stale(
        self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned = self.planned(lake)
        other = Interloper(lake, monkeypatch, "CREATE TAG", after=True)

        with pytest.raises(StalePlan, match="ref main of main.sales.orders moved"):
            planned.apply()

        assert lake.head() == other.theirs[0]

    def test_a_killed_move_over_somebodys_commit_is_found_when_it_is_resumed(self, lake: SmallLake) -> None:
        """Killed after the move and before looking: verification tells which commit is under no name."""
        planned = self.planned(lake)
        keep, move = planned.plan.actions
        sql = lake.warden.ground.spark.sql
        leave, was = keep.arguments["leave"], keep.arguments["from"]
        sql(f"ALTER TABLE main.sales.orders CREATE TAG `{leave}` AS OF VERSION {was}")
        theirs = lake.append()
        sql(f"CALL main.system.set_current_snapshot(table => 'sales.orders', snapshot_id => {move.arguments['to']})")

        with pytest.raises(VerificationFailed, match=f"commit {theirs} is under no name now"):
            planned.apply()
