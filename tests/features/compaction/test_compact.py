"""`compaction compact`: what it plans, how options and configuration meet, sorting, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakewarden import Warden
from lakewarden.errors import BadValue
from lakewarden.lifecycle.plan import PUBLISH, SPARK_SQL
from tests.engine.lakes import digest
from tests.features.compaction.compacted import Compactable
from tests.small_lake import SmallLake


@pytest.fixture
def many(lake: SmallLake) -> Compactable:
    """A table of twelve small files."""
    lake.create(appends=12)
    return Compactable(lake, "sales.orders")


class TestPlanning:
    """Without a JVM."""

    def test_analysis_and_plan_agree(self, many: Compactable) -> None:
        (analysis,) = many.lake.warden.compaction.analyze("sales.orders")
        (action,) = many.lake.warden.compaction.compact("sales.orders").plan.actions
        assert analysis.needs_compaction
        assert analysis.expected_gain == "12 files become about 1"
        assert (action.says, action.route) == ("compact 12 files into about 1", PUBLISH)
        assert {file.path for file in action.files.items} == {file.path for file in many.data}

    def test_planning_twice_gives_the_same_plan_and_changes_nothing(self, many: Compactable) -> None:
        before = digest(many.folder)
        first, second = (many.lake.warden.compaction.compact("sales.orders") for _ in range(2))
        assert first.plan.id == second.plan.id
        assert digest(many.folder) == before

    def test_few_files_need_nothing(self, lake: SmallLake) -> None:
        lake.create(appends=10)
        assert lake.warden.compaction.compact("sales.orders").is_empty
        assert not lake.warden.compaction.analyze("sales.orders")[0].needs_compaction

    def test_a_table_without_rows(self, lake: SmallLake) -> None:
        lake.create(appends=0)
        assert lake.warden.compaction.compact("sales.orders", rewrite_all=True).is_empty
        (analysis,) = lake.warden.compaction.analyze("sales.orders")
        assert (analysis.files, analysis.needs_compaction) == (0, False)

    def test_a_filter_restricts_it(self, many: Compactable) -> None:
        (action,) = many.lake.warden.compaction.compact("sales.orders", where="id < 6", rewrite_all=True).plan.actions
        assert action.files.count == 3
        assert many.lake.warden.compaction.compact("sales.orders", where="id < 0", rewrite_all=True).is_empty

    def test_options_win_over_configuration_and_that_over_table_properties(self, many: Compactable) -> None:
        def target(**options: Any) -> int:
            with Warden.open(many.lake.folder) as warden:
                (action,) = warden.compaction.compact("sales.orders", rewrite_all=True, **options).plan.actions
                return int(action.arguments["target_bytes"]) >> 20

        assert target() == 512
        with many.table.transaction() as change:
            change.set_properties({"write.target-file-size-bytes": str(200 << 20)})
        assert target() == 200
        config = many.lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["tables"] = {"sales.*": {"compaction": {"target_file_size_mb": 64}}}
        config.write_text(yaml.safe_dump(settings))
        assert target() == 64
        assert target(target_file_size_mb=32) == 32

    def test_an_option_that_asks_for_nothing_wins_too(self, many: Compactable) -> None:
        config = many.lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["defaults"] = {"compaction": {"rewrite_all": True, "min_file_size_mb": 10}}
        config.write_text(yaml.safe_dump(settings))
        many.lake.create("sales.few", appends=2)
        with Warden.open(many.lake.folder) as warden:
            assert not warden.compaction.compact("sales.few").is_empty
            assert warden.compaction.compact("sales.few", rewrite_all=False).is_empty

    def test_actions_hold_as_many_new_files_as_are_asked_for(self, lake: SmallLake) -> None:
        from pyiceberg.transforms import IdentityTransform

        lake.catalog.create_namespace("db")
        schema = pa.schema([("id", pa.int64()), ("part", pa.int32())])
        table = lake.catalog.create_table("db.parts", schema)
        with table.update_spec() as change:
            change.add_field("part", IdentityTransform())
        for number in range(2):
            rows = {"id": [number] * 5, "part": list(range(5))}
            table.append(pa.table(rows, schema=schema))
        plan = lake.warden.compaction.compact("db.parts", rewrite_all=True, max_concurrent_files=2).plan
        assert [action.files.count for action in plan.actions] == [4, 4, 2]
        assert plan.actions[0].says == "compact 4 files into about 2 (part 1 of 3)"

    def test_sorting_needs_to_know_by_what(self, many: Compactable) -> None:
        with pytest.raises(BadValue, match="has no sort order") as told:
            many.lake.warden.compaction.compact("sales.orders", strategy="sort")
        assert "--sort-by" in told.value.hint
        with pytest.raises(BadValue, match="sort_by says how to sort"):
            many.lake.warden.compaction.compact("sales.orders", sort_by="id")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("compact") / "lake") as lake:
        lake.warden.ground.spark.sql("CREATE NAMESPACE main.db")
        yield lake


@pytest.mark.spark
class TestSorting:
    @pytest.fixture
    def unsorted(self, shared: SmallLake, request: pytest.FixtureRequest) -> Compactable:
        table = Compactable(shared, f"db.s{abs(hash(request.node.nodeid))}")
        table.sql("CREATE TABLE {t} (id BIGINT, city STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")
        for start in (0, 50):
            table.sql(f"INSERT INTO {{t}} SELECT 99 - id, CONCAT('c', id % 7) FROM range({start}, {start + 50}, 1, 1)")
        return table

    def test_by_the_table_s_own_order(self, unsorted: Compactable) -> None:
        rows = unsorted.rows()
        unsorted.sql("ALTER TABLE {t} WRITE ORDERED BY city, id DESC")
        planned = unsorted.lake.warden.compaction.compact(unsorted.name, strategy="sort")
        (action,) = planned.plan.actions
        assert (action.says, action.route) == ("sort 2 files", SPARK_SQL)
        planned.apply()
        found = [(row.city, -row.id) for row in unsorted.sql("SELECT * FROM {t}")]
        assert found == sorted(found)
        assert unsorted.rows() == rows
        assert unsorted.lake.warden.compaction.compact(unsorted.name, strategy="sort").is_empty
        unsorted.sql("INSERT INTO {t} VALUES (1000, 'c0')")
        assert unsorted.lake.warden.compaction.compact(unsorted.name, strategy="sort").is_empty, "it came sorted"

    def test_by_what_is_asked_for(self, unsorted: Compactable) -> None:
        rows = unsorted.rows()

        def plan(by: str) -> Any:
            return unsorted.lake.warden.compaction.compact(unsorted.name, strategy="sort", sort_by=by)

        plan("city DESC, id").apply()
        found = [(row.city, row.id) for row in unsorted.sql("SELECT * FROM {t}")]
        assert found == sorted(found, key=lambda row: (-int(row[0][1:]), row[1]))
        assert unsorted.rows() == rows
        assert plan("city DESC, id").is_empty
        assert not plan("id").is_empty
        unsorted.sql("INSERT INTO {t} VALUES (1000, 'c0')")
        assert not plan("city DESC, id").is_empty
