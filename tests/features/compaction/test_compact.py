"""`compaction compact`: what it plans, how options and configuration meet, sorting, and what goes wrong.

Covers `features/compaction/compacting.py` and `features/compaction/sorting.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakewarden import Warden
from lakewarden.doors.cli.main import run
from lakewarden.errors import BadValue, BrokenTable, StorageUnavailable
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL
from tests.cases import in_soak
from tests.engine.lakes import digest
from tests.features.compaction.compacted import Compactable, local
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

    def test_delta_encoding_is_off_unless_asked_for_and_the_plan_warns_about_it(self, many: Compactable) -> None:
        """Spark readers with Iceberg before 1.10 cannot open such files."""
        (usual,) = many.lake.warden.compaction.compact("sales.orders").plan.actions
        assert usual.arguments["delta_encoding"] is False
        config = many.lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["tables"] = {"sales.*": {"compaction": {"delta_encoding": True}}}
        config.write_text(yaml.safe_dump(settings))
        with Warden.open(many.lake.folder) as warden:
            (action,) = warden.compaction.compact("sales.orders").plan.actions
            warden.erasure.request("sales.orders", key="id", value=["3"])
            warnings = warden.erasure.purge("sales.orders").plan.warnings
        assert action.arguments["delta_encoding"] is True
        told = "delta_encoding is set: Spark readers with Iceberg before 1.10 cannot open the new files"
        assert action.says == f"compact 12 files into about 1; {told}"
        assert f"main.sales.orders: {told}" in warnings

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
        with pytest.raises(BadValue, match="--sort-by requires --strategy sort"):
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


@pytest.mark.spark
class TestTrouble:
    """What is broken stops its own table, with a message that names the file, and changes nothing."""

    @pytest.fixture
    def broken(self, shared: SmallLake, request: pytest.FixtureRequest) -> Compactable:
        name = f"db.b{abs(hash(request.node.nodeid))}"
        table = Compactable(shared, name)
        table.sql(
            "CREATE TABLE {t} (id BIGINT, city STRING) USING iceberg TBLPROPERTIES ('format-version' = '2', "
            "'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')"
        )
        for start in (0, 10, 20):
            table.sql(f"INSERT INTO {{t}} SELECT id, CONCAT('c', id) FROM range({start}, {start + 10}, 1, 1)")
        return table

    def test_a_data_file_that_is_not_there(self, broken: Compactable) -> None:
        path = local(broken.data[1].path)
        path.unlink()
        self._stops(broken, BrokenTable, path.name)

    @pytest.mark.parametrize("keep", [200, *in_soak(0, 4)], ids=["truncated", "empty", "magic"])
    def test_a_data_file_that_is_cut_short(self, broken: Compactable, keep: int) -> None:
        path = local(broken.data[1].path)
        path.write_bytes(path.read_bytes()[:keep])
        self._stops(broken, BrokenTable, path.name)

    @pytest.mark.parametrize("keep", [200, *in_soak(None)], ids=["truncated", "missing"])
    def test_a_data_file_of_format_v3(self, broken: Compactable, keep: int | None) -> None:
        """There Spark does it, and it must be as plain what stopped it."""
        broken.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
        path = local(broken.data[1].path)
        if keep is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:keep])
        self._stops(broken, BrokenTable, path.name)

    def test_a_data_file_of_garbage(self, broken: Compactable) -> None:
        path = local(broken.data[0].path)
        content = path.read_bytes()
        path.write_bytes(content[:4] + bytes(len(content) - 4 - 200) + content[-200:])
        self._stops(broken, BrokenTable, path.name)

    def test_a_data_file_with_other_rows_than_the_table_says(self, broken: Compactable) -> None:
        one, other = (local(broken.data[place].path) for place in (0, 1))
        broken.sql("INSERT INTO {t} VALUES (100, 'x')")
        extra = next(local(file.path) for file in broken.data if file.rows == 1)
        one.write_bytes(extra.read_bytes())
        assert other.exists()
        self._stops(broken, BrokenTable, one.name, "has 1 rows, but the table's metadata says 10")

    @pytest.mark.parametrize("what", ["missing", *in_soak("garbage")])
    def test_a_delete_file(self, broken: Compactable, what: str) -> None:
        broken.sql("DELETE FROM {t} WHERE id IN (3, 13)")
        (delete,) = broken.files.deletes
        planned = broken.plan()
        path = local(delete.path)
        if what == "missing":
            path.unlink()
        else:
            path.write_bytes(b"no Parquet")
        before = digest(broken.folder)
        with pytest.raises(BrokenTable, match=path.name):
            planned.apply()
        assert digest(broken.folder) == before

    def test_a_folder_that_cannot_be_written_to(self, broken: Compactable) -> None:
        in_the_way = broken.folder / "in the way"
        in_the_way.write_text("a file where a folder should be: root may write to any folder")
        with broken.table.transaction() as change:
            change.set_properties({"write.data.path": f"{broken.table.metadata.location}/in the way"})
        planned, before = broken.plan(), digest(broken.folder)
        with pytest.raises(StorageUnavailable):
            planned.apply()
        assert digest(broken.folder) == before

    def test_gc_enabled_false_is_no_matter_here(self, broken: Compactable) -> None:
        broken.sql("ALTER TABLE {t} SET TBLPROPERTIES ('gc.enabled' = 'false')")
        files = {file.path for file in broken.data}
        broken.compact()
        assert len(broken.data) == 1
        assert all(local(path).exists() for path in files)

    def _stops(self, table: Compactable, kind: type[Exception], *words: str) -> None:
        planned, before = table.plan(), digest(table.folder)
        with pytest.raises(kind) as told:
            planned.apply()
        for word in words:
            assert word in str(told.value)
        assert digest(table.folder) == before


@pytest.mark.spark
@pytest.mark.slow
def test_one_broken_table_of_several_leaves_the_others_done_and_exits_with_1(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sales.bad", "sales.good", "sales.last"):
        lake.create(name, appends=12)
    bad = Compactable(lake, "sales.bad")
    gone = local(bad.data[3].path)
    gone.unlink()
    before = digest(bad.folder)

    assert run(["--config", str(lake.folder), "compaction", "compact", "--all", "--apply", "--json"]) == 1

    error = json.loads(capsys.readouterr().out)["error"]
    assert gone.name in json.dumps(error)
    assert digest(bad.folder) == before
    for name in ("sales.good", "sales.last"):
        assert len(Compactable(lake, name).data) == 1
        assert lake.ids(name) == list(range(24))
