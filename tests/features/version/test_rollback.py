"""`version rollback`.

Covers `features/version/restoring.py` and `features/version/schemas.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from lakewarden.errors import BadReference, Conflict, NotAncestor, StalePlan, VerificationFailed
from tests.engine.commit.test_direct import Interloper as RightBefore
from tests.small_lake import ANY_FORMAT, SmallLake


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


@ANY_FORMAT
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


@ANY_FORMAT
def test_says_what_readers_will_see(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1]
    loss, undo = orders.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").plan.warnings
    assert "rows go from 6 to 2" in loss
    back = f"main.sales.orders@before-rollback-{orders.head()}"
    assert undo == f"undo: lakewarden version rollback {back} --not-ancestor --apply"


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

        with pytest.raises(VerificationFailed, match=f"commit {theirs} is on no branch now"):
            planned.apply()


class TestColumns:
    """A rollback leaves the columns as they are, and says how they differ; --with-schema restores them too."""

    @pytest.fixture
    def migrated(self, lake: SmallLake) -> SmallLake:
        """A migration that went wrong: columns added, renamed, dropped and widened, and a version after it."""
        lake.catalog.create_namespace("sales")
        schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("price", pa.int32()), ("note", pa.string())])
        table = lake.catalog.create_table("sales.orders", schema)
        table.append(pa.table({"id": [1], "city": ["Bern"], "price": [5], "note": ["x"]}, schema=schema))
        with table.update_schema() as change:
            change.add_column("region", StringType())
            change.rename_column("city", "town")
            change.update_column("price", LongType())
            change.delete_column("note")
        after = table.schema().as_arrow()
        table.append(pa.table({"id": [2], "town": ["Chur"], "price": [6], "region": ["east"]}, schema=after))
        return lake

    def first(self, lake: SmallLake) -> str:
        return f"sales.orders@{lake.warden.version.list('sales.orders')[-1].snapshot_id}"

    def test_without_it_the_plan_says_how_they_differ(self, migrated: SmallLake) -> None:
        _, columns, _ = migrated.warden.version.rollback(self.first(migrated)).plan.warnings
        changed = "note dropped, region added, city renamed to town, price changed from int to long"
        assert columns.endswith(f"was written and stay as they are: {changed}. --with-schema restores them")
        migrated.warden.version.rollback(self.first(migrated)).apply()
        assert migrated.catalog.load_table("sales.orders").schema().column_names == ["id", "town", "price", "region"]

    def test_with_it_the_old_columns_and_values_are_back_in_one_commit(self, migrated: SmallLake) -> None:
        first, commits = self.first(migrated), len(migrated.metadata_files())
        planned = migrated.warden.version.rollback(first, with_schema=True)
        assert "restore schema 0, which undoes: note dropped" in planned.plan.actions[0].says

        report = planned.apply()

        assert report.result["schemas_restored"] == report.result["refs_moved"] == 1
        assert len(migrated.metadata_files()) == commits + 1
        assert migrated.warden.version.read("sales.orders").rows == [{"id": 1, "city": "Bern", "price": 5, "note": "x"}]
        assert migrated.warden.version.rollback(first, with_schema=True).is_empty
        table = migrated.catalog.load_table("sales.orders")
        table.append(
            pa.table({"id": [3], "city": ["Biel"], "price": [7], "note": ["y"]}, schema=table.schema().as_arrow())
        )
        assert migrated.ids() == [1, 3]

    def test_the_plan_says_how_to_undo_it_and_that_works(self, migrated: SmallLake) -> None:
        before = migrated.warden.version.read("sales.orders")
        planned = migrated.warden.version.rollback(self.first(migrated), with_schema=True)
        command = planned.plan.warnings[-1].removeprefix("undo: lakewarden ").split()
        planned.apply()
        migrated.run(*command)
        assert migrated.warden.version.read("sales.orders") == before

    def test_where_main_is_there_already_only_the_columns_come_back(self, migrated: SmallLake) -> None:
        first = self.first(migrated)
        migrated.warden.version.rollback(first).apply()
        refs = migrated.refs()
        migrated.warden.version.rollback(first, with_schema=True).apply()
        assert migrated.refs() == refs
        assert migrated.catalog.load_table("sales.orders").schema().column_names == ["id", "city", "price", "note"]

    def test_columns_of_no_version_are_named_as_lost(self, migrated: SmallLake) -> None:
        with migrated.catalog.load_table("sales.orders").update_schema() as change:
            change.add_column("later", StringType())
        told = migrated.warden.version.rollback(self.first(migrated), with_schema=True).plan.warnings
        assert told[-1].endswith("undoing does not restore later added")

    def test_a_change_of_columns_after_planning_makes_it_stale(self, migrated: SmallLake) -> None:
        planned = migrated.warden.version.rollback(self.first(migrated), with_schema=True)
        with migrated.catalog.load_table("sales.orders").update_schema() as change:
            change.add_column("later", StringType())
        refs = migrated.refs()
        with pytest.raises(StalePlan, match="its schema was 1 and is now 2"):
            planned.apply()
        assert migrated.refs() == refs

    def test_a_change_of_columns_in_the_very_moment_makes_it_stale(self, migrated: SmallLake) -> None:
        planned = migrated.warden.version.rollback(self.first(migrated), with_schema=True)
        refs = migrated.refs()

        def meddle() -> None:
            with migrated.catalog.load_table("sales.orders").update_schema() as change:
                change.add_column("later", StringType())

        RightBefore(migrated.catalog, meddle)
        with pytest.raises(StalePlan, match="the schema of main.sales.orders was 1 and is now 2"):
            planned.apply()
        assert migrated.refs() == refs

    def test_columns_that_it_is_partitioned_or_sorted_by_now_are_not_taken_away(self, migrated: SmallLake) -> None:
        first, table = self.first(migrated), migrated.catalog.load_table("sales.orders")
        with table.update_spec() as spec:
            spec.add_identity("region")
        with pytest.raises(Conflict, match=r"partitioned by identity\(region\), which the schema of .* does not have"):
            migrated.warden.version.rollback(first, with_schema=True)
        with table.update_spec() as spec:
            spec.remove_field("region")
        with table.update_sort_order() as order:
            order.asc("region", IdentityTransform())
        with pytest.raises(Conflict, match=r"sorted by identity\(region\)") as refused:
            migrated.warden.version.rollback(first, with_schema=True)
        assert "Change how the table is sorted first" in refused.value.hint
        migrated.warden.version.rollback(first).apply()

    def test_identifier_fields_come_back_with_their_schema(self, lake: SmallLake) -> None:
        lake.create()
        with lake.catalog.load_table("sales.orders").update_schema(allow_incompatible_changes=True) as change:
            change.update_column("id", required=True)
            change.set_identifier_fields("id")
        table = lake.catalog.load_table("sales.orders")
        table.append(pa.table({"id": [9], "city": ["Biel"]}, schema=table.schema().as_arrow()))
        written = f"sales.orders@{lake.head()}"
        with table.update_schema(allow_incompatible_changes=True) as change:
            change.set_identifier_fields()
            change.update_column("id", required=False)
        (note,) = lake.warden.version.rollback(written).plan.warnings
        assert "id is no longer required, identifier fields changed" in note
        lake.warden.version.rollback(written, with_schema=True).apply()
        assert lake.catalog.load_table("sales.orders").schema().identifier_field_names() == {"id"}

    def test_other_branches_are_named(self, migrated: SmallLake) -> None:
        migrated.warden.version.branch("sales.orders", "dev").apply()
        told = migrated.warden.version.rollback(self.first(migrated), with_schema=True).plan.warnings
        assert "these branches get the restored columns too: dev" in told

    @pytest.mark.spark
    def test_spark_reads_and_writes_after_it(self, migrated: SmallLake) -> None:
        migrated.warden.version.rollback(self.first(migrated), with_schema=True).apply()
        sql = migrated.warden.ground.spark.sql
        sql("INSERT INTO main.sales.orders VALUES (3, 'Biel', 7, 'y')")
        rows = sql("SELECT id, city, price, note FROM main.sales.orders ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [(1, "Bern", 5, "x"), (3, "Biel", 7, "y")]

    @pytest.mark.spark
    def test_v3_undoes_what_statements_can_and_refuses_the_rest(self, lake: SmallLake) -> None:
        lake.create(format=3, appends=2)
        first, sql = self.first(lake), lake.warden.ground.spark.sql
        sql("ALTER TABLE main.sales.orders ADD COLUMN region STRING")
        sql("ALTER TABLE main.sales.orders RENAME COLUMN city TO town")
        planned = lake.warden.version.rollback(first, with_schema=True)
        assert [action.verb for action in planned.plan.actions] == ["keep", "move", "drop-column", "rename-column"]
        planned.apply()
        table = lake.catalog.load_table("sales.orders")
        assert table.schema() == table.metadata.schemas[0] and lake.ids() == [0, 1]

        sql("ALTER TABLE main.sales.orders DROP COLUMN city")
        with pytest.raises(Conflict, match="cannot undo this: city dropped") as refused:
            lake.warden.version.rollback(first, with_schema=True)
        assert "loses its old values" in refused.value.hint
