"""Compaction leaves files alone in which rows are hidden: withdrawing the request must bring them back exactly."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakewarden.engine.rows.position_deletes import is_hide
from lakewarden.errors import StalePlan
from lakewarden.features.erasure.hidden.held_files import held_files
from lakewarden.records.erasure import ErasureState
from tests.features.compaction.compacted import Compactable
from tests.features.erasure.seen import seen
from tests.small_lake import SCHEMA, SmallLake


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("hidden") / "lake") as lake:
        yield lake


def filled(lake: SmallLake, name: str = "sales.orders", files: int = 6) -> Compactable:
    """A table of small files with two rows each."""
    lake.create(name, appends=files)
    return Compactable(lake, name)


def planned_files(table: Compactable, **options: object) -> set[str]:
    return {file.path for action in table.plan(**options).plan.actions for file in action.files.items}


def file_with(table: Compactable, id: int) -> str:
    return str(next(task.file.file_path for task in table.table.scan(f"id = {id}").plan_files()))


def test_other_files_are_compacted_as_before_and_it_is_told(lake: SmallLake) -> None:
    table = filled(lake)
    asked = lake.warden.erasure.request("sales.orders", key="id", value=["3"])
    before = planned_files(table)
    assert len(before) == 6
    lake.warden.erasure.hide("sales.orders").apply()
    planned = table.plan()
    assert planned_files(table) == before - {file_with(table, 2)}
    told = "1 file is not rewritten: it has hidden rows of erasure requests that can be withdrawn"
    assert planned.plan.warnings == (f"main.sales.orders: {told}",)
    lake.warden.erasure.withdraw(asked.id).apply()
    assert planned_files(table) == before
    assert table.plan().plan.warnings == ()


def test_files_whose_key_column_was_dropped_keep_it(lake: SmallLake) -> None:
    table = filled(lake)
    lake.warden.erasure.request("sales.orders", key="city", value=["city 3"])
    with table.table.update_schema() as change:
        change.delete_column("city")
    assert lake.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    planned = table.plan()
    assert planned_files(table) & {file_with(table, 2)} == set()
    assert "1 file is not rewritten" in planned.plan.warnings[0]
    planned.apply()
    assert lake.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]


def test_analysis_tells_it_too(lake: SmallLake) -> None:
    filled(lake, files=1)
    lake.warden.erasure.request("sales.orders", key="id", value=["1"])
    lake.warden.erasure.hide("sales.orders").apply()
    (found,) = lake.warden.compaction.analyze("sales.orders")
    assert found.needs_compaction is False  # half of the file's rows are masked, which else would be reason enough
    assert "1 file is not rewritten" in found.reason
    assert found.deleted_rows_present == 1


def test_only_a_closed_request_holds_nothing(lake: SmallLake) -> None:
    table = filled(lake)
    asked = lake.warden.erasure.request("sales.orders", key="id", value=["3"])
    lake.warden.erasure.hide("sales.orders").apply()
    ground = lake.warden.ground
    assert held_files(ground, table.table, table.files) == {file_with(table, 2)}
    hidden = lake.head()
    lake.warden.erasure.withdraw(asked.id).apply()
    assert held_files(ground, table.table, table.files) == frozenset()
    with table.table.manage_snapshots() as change:
        change.rollback_to_snapshot(hidden)  # withdrawn, and hidden again: it is about to come back
    assert held_files(ground, table.table, table.files) == {file_with(table, 2)}

    other = lake.warden.erasure.request("sales.orders", key="id", value=["4"])
    lake.warden.erasure.hide("sales.orders").apply()
    ground.state.erasure.move(other.id, ErasureState.CLOSED, ground.clock())
    assert held_files(ground, table.table, table.files) == {file_with(table, 2)}


def test_sorting_would_rewrite_all_files(lake: SmallLake) -> None:
    table = filled(lake)
    lake.warden.erasure.request("sales.orders", key="id", value=["3"])
    assert table.plan(strategy="sort", sort_by="id").plan.actions
    lake.warden.erasure.hide("sales.orders").apply()
    planned = table.plan(strategy="sort", sort_by="id")
    assert planned.is_empty
    assert "Spark would rewrite all files" in planned.plan.warnings[0]
    assert table.plan(strategy="sort", sort_by="id", where="id > 8").plan.actions


def test_upkeep_plans_nothing_for_what_must_stay(lake: SmallLake) -> None:
    filled(lake, files=1)
    lake.warden.erasure.request("sales.orders", key="id", value=["1"])
    lake.warden.erasure.hide("sales.orders").apply()
    planned = lake.warden.policy.run(only=["compaction"])
    assert not [action for action in planned.plan.actions if action.verb == "compact"]


@pytest.mark.spark
class TestOnSpark:
    def test_withdrawing_after_a_compaction_brings_the_rows_back(self, shared: SmallLake) -> None:
        table = filled(shared, "db.one")
        asked = shared.warden.erasure.request("db.one", key="id", value=["3", "8"])
        shared.warden.erasure.hide("db.one").apply()
        result = table.compact()
        assert (result["files_rewritten"], result["files_written"]) == (4, 1)
        table.look_at_metadata()
        assert seen(shared, name="db.one") == [i for i in range(12) if i not in (3, 8)]
        assert len(table.files.deletes) == 2
        planned = shared.warden.erasure.withdraw(asked.id)
        assert planned.plan.warnings == ()
        planned.apply()
        assert seen(shared, name="db.one") == [*range(12)]

    def test_rows_that_were_hidden_since_the_plan(self, shared: SmallLake) -> None:
        table = filled(shared, "db.two")
        planned = table.plan()
        asked = shared.warden.erasure.request("db.two", key="id", value=["3"])
        shared.warden.erasure.hide("db.two").apply()
        assert planned.apply().result["files_rewritten"] == 5
        shared.warden.erasure.withdraw(asked.id).apply()
        assert seen(shared, name="db.two") == [*range(12)]

    def test_rows_that_were_hidden_since_spark_was_to_sort(self, shared: SmallLake) -> None:
        table = filled(shared, "db.three")
        planned = table.plan(strategy="sort", sort_by="id")
        shared.warden.erasure.request("db.three", key="id", value=["3"])
        shared.warden.erasure.hide("db.three").apply()
        with pytest.raises(StalePlan, match="rows of main.db.three were hidden since"):
            planned.apply()

    def test_deletes_of_others_are_applied_as_before(self, shared: SmallLake) -> None:
        table = filled(shared, "db.four")
        table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        table.table.append(pa.table({"id": [100, 101, 102], "city": ["a", "b", "c"]}, schema=SCHEMA))
        shared.warden.erasure.request("db.four", key="id", value=["3"])
        shared.warden.erasure.hide("db.four").apply()
        table.sql("DELETE FROM {t} WHERE id = 101")
        assert table.compact()["deleted_rows_dropped"] == 1
        assert seen(shared, name="db.four") == [*(i for i in range(12) if i != 3), 100, 102]

    def test_what_spark_merges_with_its_own_deletes_comes_back_too(self, shared: SmallLake) -> None:
        """Spark replaces the deletes of a data file when it deletes from it: a hide file goes that way."""
        shared.create("db.five", appends=0)
        table = Compactable(shared, "db.five")
        table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        table.table.append(pa.table({"id": range(12), "city": ["a"] * 12}, schema=SCHEMA))
        table.sql("DELETE FROM {t} WHERE id = 5")
        one = shared.warden.erasure.request("db.five", key="id", value=["3", "4", "5"])
        two = shared.warden.erasure.request("db.five", key="id", value=["4", "8"])
        shared.warden.erasure.hide("db.five").apply()
        left = [0, 1, 2, 6, 7, 9, 10, 11]
        assert [row["id"] for row in table.sql("SELECT id FROM {t} ORDER BY id")] == left
        assert len({delete.path for delete in table.files.deletes}) == 2
        table.sql("DELETE FROM {t} WHERE id = 9")
        (merged,) = table.files.deletes
        assert merged.rows == 5 and not is_hide(merged.path)
        assert shared.warden.erasure.hide("db.five").is_empty
        planned = shared.warden.erasure.withdraw(one.id)
        assert planned.plan.warnings == () and planned.plan.actions[0].estimate.rows == 1
        planned.apply()
        assert seen(shared, name="db.five") == [0, 1, 2, 3, 6, 7, 10, 11]
        shared.warden.erasure.withdraw(two.id).apply()
        assert seen(shared, name="db.five") == [0, 1, 2, 3, 4, 6, 7, 8, 10, 11]
        assert [row["id"] for row in table.sql("SELECT id FROM {t} ORDER BY id")] == seen(shared, name="db.five")
