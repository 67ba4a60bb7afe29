"""`policy run`: all the upkeep at once, in order; and a second run right after it has nothing to do (invariant 8)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import SomeFailed
from lakewarden.lifecycle.states import State
from tests.cases import in_soak
from tests.features.retention.test_expire import configure, snapshots
from tests.reachability import aged, files_in, on_disk, orphans
from tests.small_lake import SCHEMA, SmallLake

TIGHT = {"retention": {"keep_last": 1, "keep_days": 0}}


def verbs(plan: Any) -> list[tuple[str, str]]:
    return [(action.subject.removeprefix("main."), action.verb) for action in plan.actions]


@pytest.fixture
def kept(lake: SmallLake) -> SmallLake:
    """A lake whose tables keep their newest version only."""
    configure(lake, defaults=TIGHT)
    return lake


class TestPlanning:
    def test_versions_then_manifests_then_files(self, kept: SmallLake) -> None:
        kept.create("sales.ill", appends=14)
        plan = kept.warden.policy.run().plan
        assert verbs(plan) == [("sales.ill", verb) for verb in ("expire", "merge-manifests", "compact")]
        assert plan.target == "all tables"

    def test_only_some_of_it(self, kept: SmallLake) -> None:
        kept.create("sales.ill", appends=14)
        for only, expected in (
            ("retention", ["expire"]),
            ("manifests", ["merge-manifests"]),
            ("retention,compaction", ["expire", "compact"]),
        ):
            shown = kept.run("policy", "run", "--only", only, "--json")
            assert [action["verb"] for action in json.loads(shown.stdout)["plan"]["actions"]] == expected, only
        kept.run("policy", "run", "--only", "orphans", check=2)

    def test_tables_by_what_they_gain_for_what_it_costs(self, lake: SmallLake) -> None:
        configure(lake, tables={"sales.*": TIGHT})
        lake.create("sales.a_little", appends=3)
        lake.catalog.load_table("sales.a_little").manage_snapshots().create_tag(
            snapshots(lake, "sales.a_little")[0], "v1"
        ).commit()
        lake.create("sales.very", appends=14)
        lake.create("sales.well", appends=1)
        lake.create("other.some", appends=11)
        order = list(dict.fromkeys(table for table, _ in verbs(lake.warden.policy.run().plan)))
        assert order == [
            "other.some",
            "sales.very",
            "sales.a_little",
        ]  # 45 points for two steps, 60 for three, 5 for one

    def test_tables_that_are_left_alone(self, kept: SmallLake) -> None:
        kept.create("flink.sink", appends=3)
        kept.create("sales.orders", appends=3)
        configure(kept, defaults=TIGHT, tables={"flink.*": {"skip": True}})
        assert {table for table, _ in verbs(kept.warden.policy.run().plan)} == {"sales.orders"}
        assert {table for table, _ in verbs(kept.warden.policy.run("flink.sink").plan)} == {"flink.sink"}

    def test_what_was_decided_is_told_of_one_table(self, kept: SmallLake) -> None:
        kept.create("sales.orders", appends=3)
        assert len(kept.warden.policy.run("sales.orders").plan.verdicts) == 3
        assert kept.warden.policy.run().plan.verdicts == ()

    def test_one_namespace(self, kept: SmallLake) -> None:
        kept.create("sales.orders", appends=3)
        kept.create("other.orders", appends=3)
        assert {table for table, _ in verbs(kept.warden.policy.run(namespace="other").plan)} == {"other.orders"}

    def test_a_table_that_forbids_deletion_is_kept_up_otherwise(self, kept: SmallLake) -> None:
        kept.create("sales.shared", appends=14)
        with kept.catalog.load_table("sales.shared").transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        plan = kept.warden.policy.run().plan
        assert verbs(plan) == [("sales.shared", "merge-manifests"), ("sales.shared", "compact")]
        assert plan.refused == () and "gc.enabled=false" in plan.warnings[0]


class TestRunning:
    def test_at_the_end_of_the_budget_the_rest_is_listed(self, kept: SmallLake) -> None:
        for name in ("a", "b", "c"):
            kept.create(f"sales.{name}", appends=3)
        done = kept.run("policy", "run", "--only", "retention", "--budget", "1ms", "--apply", "--json")
        document = json.loads(done.stdout)
        assert document["operation"]["state"] == "done" and len(document["left"]) == document["result"]["left"] == 2
        whole = [name for name in "abc" if len(snapshots(kept, f"sales.{name}")) == 1]
        assert len(whole) == 1 and all(orphans(kept.catalog.load_table(f"sales.{n}")) == set() for n in "abc")
        assert (
            "left for the next run (1)"
            in kept.run("policy", "run", "--only", "retention", "--budget", "1ms", "--apply").stdout
        )
        kept.run("policy", "run", "--only", "retention", "--apply")
        assert kept.warden.policy.run(only=["retention"]).is_empty

    def test_a_table_held_by_another_run_is_skipped_and_the_run_succeeds(self, kept: SmallLake) -> None:
        for name in ("sales.a", "sales.b"):
            kept.create(name, appends=3)
        uuid = kept.warden.ground.tables.uuid("sales.a")
        lease = kept.warden.ground.leases.acquire(
            f"table:{uuid}", "main.sales.a", "op-other", "night:7", timedelta(hours=1)
        )
        ran = kept.run("policy", "run", "--only", "retention", "--apply")
        said = ran.stdout
        skipped, done = sorted(ran.stderr.splitlines(), reverse=True)  # a line for each step, since no terminal looks
        assert skipped.startswith("skipped: main.sales.a is held by operation op-other (night:7) until")
        assert done.startswith("1/2 main.sales.b: expire ")
        assert "skipped (1):\n  main.sales.a is held by operation op-other (night:7) until" in said
        assert (len(snapshots(kept, "sales.a")), len(snapshots(kept, "sales.b"))) == (3, 1)

        kept.run("policy", "run", "--only", "retention", "--apply", "--wait", "1s", check=1)
        kept.run("policy", "run", "sales.a", "--only", "retention", "--apply", check=1)  # nothing else was asked for
        kept.warden.ground.leases.release(lease)
        kept.run("policy", "run", "--only", "retention", "--apply")
        assert len(snapshots(kept, "sales.a")) == 1

    def test_several_tables_at_once(self, kept: SmallLake) -> None:
        for number in range(6):
            kept.create(f"sales.t{number}", appends=3)
        events: list[Any] = []
        report = kept.warden.policy.run(only=["retention"], parallel=2).apply(watch=events.append)
        assert (report.state, report.result["subjects"], report.result["snapshots_expired"]) == (State.DONE, 6, 12)
        assert report.result["percent"] > 0
        begun = [(event.phase, event.subject) for event in events if event.phase in ("applying", "verifying")]
        assert len({table for phase, table in begun[:2] if phase == "applying"}) == 2  # two had begun before one ended

    def test_a_corrupt_table_does_not_stop_the_others(self, kept: SmallLake) -> None:
        for name in ("broken", "lost", "fine"):
            kept.create(f"sales.{name}", appends=3)
        table = kept.catalog.load_table("sales.broken")
        manifest = on_disk(table.current_snapshot().manifests(table.io)[0].manifest_path)
        manifest.write_bytes(b"nothing that anybody can read")
        on_disk(kept.catalog.load_table("sales.lost").metadata_location).unlink()
        done = kept.run("policy", "run", "--apply", "--json", check=1)
        error = json.loads(done.stdout)["error"]
        assert error["message"].startswith("2 of 3 failed, the others are done")
        assert manifest.name in error["message"] and "main.sales.lost" in error["message"]
        assert len(snapshots(kept, "sales.fine")) == 1 and len(snapshots(kept, "sales.broken")) == 3


@pytest.mark.spark
class TestSecondRun:
    """Whatever a table is like, one run does all that there is to do."""

    @pytest.fixture(params=[TIGHT, *in_soak({})], ids=["tight", "defaults"])
    def clinic(self, lake: SmallLake, request: pytest.FixtureRequest) -> SmallLake:
        configure(lake, defaults=request.param)
        lake.create("v1.plain", format=1, appends=14)
        lake.create("v2.plain", appends=35)
        aged(lake, "v2.plain", 100)
        self._with_deletes(lake, "v2.deletes", 2)
        self._hot_and_cold(lake, "v2.partitioned")
        self._evolved(lake, "v2.evolved")
        self._with_deletes(lake, "v3.deletes", 3)
        lake.create("v2.single", appends=1)
        lake.create("v2.rewritten", appends=4)
        return lake

    def test_plans_nothing(self, clinic: SmallLake) -> None:
        names = list(clinic.warden.ground.tables.names())
        before = {str(name): clinic.ids(str(name)) for name in names}
        first = clinic.warden.policy.run(parallel=2)
        done = {table for table, verb in verbs(first.plan) if verb == "compact"}
        assert done >= {"v1.plain", "v2.plain", "v2.deletes", "v2.partitioned", "v3.deletes"}
        first.apply()
        assert {str(name): clinic.ids(str(name)) for name in names} == before
        again = clinic.warden.policy.run().plan
        assert [f"{action.subject}: {action.says}" for action in again.actions] == []
        assert all(orphans(clinic.catalog.load_table(name.identifier)) == set() for name in names)
        assert {row.score for row in clinic.warden.table.health()} == {100}

    def again(self, lake: SmallLake) -> list[str]:
        """What a second run would do right after the first."""
        lake.warden.policy.run().apply()
        return [f"{action.subject}: {action.says}" for action in lake.warden.policy.run().plan.actions]

    @pytest.mark.soak
    def test_where_every_file_is_to_be_rewritten(self, lake: SmallLake) -> None:
        configure(lake, defaults={**TIGHT, "compaction": {"rewrite_all": True}})
        for format in (1, 2, 3):
            lake.create(f"v{format}.few", format=format, appends=3)
        self._with_deletes(lake, "v3.deletes", 3)
        self._hot_and_cold(lake, "v2.partitioned")
        assert self.again(lake) == []

    def test_where_names_keep_versions_and_main_went_back(self, kept: SmallLake) -> None:
        kept.create("sales.t", appends=6)
        kept.warden.version.tag("sales.t", "v1").apply()
        kept.warden.version.branch("sales.t", "dev").apply()
        for _ in range(8):
            kept.append("sales.t")
        for _ in range(12):
            on_dev = pa.table({"id": [1000], "city": ["x"]}, schema=SCHEMA)
            kept.catalog.load_table("sales.t").append(on_dev, branch="dev")
        kept.warden.version.rollback("sales.t@v1").apply()
        aged(kept, "sales.t", 5)
        assert self.again(kept) == []

    def test_what_a_compaction_replaced_goes_a_day_later(self, kept: SmallLake) -> None:
        """The newest version alone is kept, and by then in its new files alone; Spark still finds it by time."""
        kept.create("sales.t", appends=14)
        assert self.again(kept) == []
        newest = kept.catalog.load_table("sales.t").metadata.snapshot_log[-2:]
        aged(kept, "sales.t", 2)
        assert self.again(kept) == []
        table = kept.catalog.load_table("sales.t")
        assert len(table.metadata.snapshots) == 1 and kept.ids("sales.t") == list(range(28))
        assert len([path for path in files_in(table) if path.suffix == ".parquet"]) == 1
        before = newest[0].timestamp_ms / 1000 - 2 * 86_400
        sql = kept.warden.ground.spark.sql
        (found,) = sql(f"SELECT count(*) AS rows FROM main.sales.t TIMESTAMP AS OF {before + 0.0005}").collect()
        assert found["rows"] == 28

    @pytest.mark.parametrize("format", [2, *in_soak(3)])
    def test_where_every_row_is_deleted(self, kept: SmallLake, format: int) -> None:
        kept.create("sales.gone", format=format, appends=3)
        sql = kept.warden.ground.spark.sql
        sql("ALTER TABLE main.sales.gone SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        sql("DELETE FROM main.sales.gone WHERE id % 2 = 0")
        sql("DELETE FROM main.sales.gone WHERE id % 2 = 1")
        assert self.again(kept) == [] and kept.ids("sales.gone") == []

    def test_a_missing_data_file_stops_its_table_only(self, kept: SmallLake) -> None:
        for name in ("sales.hurt", "sales.fine"):
            kept.create(name, appends=14)
        table = kept.catalog.load_table("sales.hurt")
        lost = on_disk(next(iter(table.scan().plan_files())).file.file_path)
        lost.unlink()
        with pytest.raises(SomeFailed, match=lost.name):
            kept.warden.policy.run(only=["compaction"]).apply()
        assert len(list(kept.catalog.load_table("sales.fine").scan().plan_files())) == 1
        assert kept.head("sales.hurt") == table.current_snapshot().snapshot_id
        assert orphans(kept.catalog.load_table("sales.hurt")) == set()

    def _with_deletes(self, lake: SmallLake, name: str, format: int) -> None:
        sql = lake.warden.ground.spark.sql
        lake.catalog.create_namespace_if_not_exists(name.partition(".")[0])
        sql(
            f"CREATE TABLE main.{name} (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city) TBLPROPERTIES "
            f"('format-version' = '{format}', 'write.delete.mode' = 'merge-on-read')"
        )
        for start in range(0, 120, 20):
            sql(
                f"INSERT INTO main.{name} SELECT id, CASE WHEN id % 2 = 0 THEN 'a' ELSE 'b' END "
                f"FROM range({start}, {start + 20})"
            )
        sql(f"DELETE FROM main.{name} WHERE id % 5 = 0")
        sql(f"DELETE FROM main.{name} WHERE id = 7")

    def _hot_and_cold(self, lake: SmallLake, name: str) -> None:
        """Nine manifests, each with a file that is worth compacting and one that is not: there must be no tenth."""
        lake.catalog.create_namespace_if_not_exists(name.partition(".")[0])
        table = lake.catalog.create_table(name, SCHEMA)
        with table.update_spec() as spec:
            spec.add_identity("city")
        for number in range(9):
            rows = {"id": [2 * number, 2 * number + 1], "city": ["hot", f"cold {number}"]}
            table.append(pa.table(rows, schema=SCHEMA))

    def _evolved(self, lake: SmallLake, name: str) -> None:
        """Files of two partition specs."""
        lake.create(name, appends=9)
        table = lake.catalog.load_table(name)
        with table.update_spec() as spec:
            spec.add_identity("city")
        for number in range(9):
            table.append(pa.table({"id": [100 + number], "city": ["hot"]}, schema=SCHEMA))


def test_what_it_leaves_is_told_to_people(kept: SmallLake, tmp_path: Path) -> None:
    kept.create("sales.orders", appends=3)
    shown = kept.run("policy", "run")
    assert "expire 2 of 3 versions" in shown.stdout and "Nothing changed." in shown.stdout
    assert len(snapshots(kept, "sales.orders")) == 3
    done = kept.run("policy", "run", "--apply")
    assert "percent" in done.stdout and "Nothing to do." in kept.run("policy", "run").stdout
