"""`retention expire`: what the plan says is exactly what happens, and nothing else (invariants 1 to 3, 6 to 8, 12).

Covers `features/retention/expiry.py` and `features/retention/file_removal.py`.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakewarden import Warden
from lakewarden.engine.commit.procedures import Procedures
from lakewarden.engine.commit.refs import RefChange, SetRef
from lakewarden.errors import (
    BadValue,
    BrokenTable,
    Conflict,
    DeletionForbidden,
    LakewardenError,
    SomeFailed,
    StalePlan,
    VersionNotFound,
)
from lakewarden.lifecycle.states import State
from lakewarden.quantities import from_millis
from tests.cases import in_soak
from tests.engine.commit.test_direct import Interloper
from tests.reachability import (
    aged,
    days_later,
    files_in,
    ids_at,
    in_quarantine,
    on_disk,
    orphans,
    own_metadata,
    reachable,
)
from tests.small_lake import SCHEMA, SmallLake

ORDERS = "sales.orders"
ALL: dict[str, Any] = {"keep_last": 1, "keep_days": 0}


def configure(lake: SmallLake, **sections: Any) -> None:
    """Change the installation's file, and open it anew."""
    path = lake.folder / "lakewarden.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections))
    lake.warden.close()
    lake.warden = Warden.open(lake.folder)


def snapshots(lake: SmallLake, name: str = ORDERS) -> list[int]:
    """In the order they were made."""
    return [s.snapshot_id for s in lake.catalog.load_table(name).metadata.snapshots]


def listed(plan: Any) -> dict[Path, int]:
    return {on_disk(file.path): file.bytes for action in plan.actions for file in action.files.items}


@pytest.fixture
def busy(lake: SmallLake) -> SmallLake:
    """Seven versions: appends, a row deleted by rewriting its file, a tag, a branch with a commit of its own."""
    lake.create(ORDERS, appends=3)
    lake.catalog.load_table(ORDERS).delete("id = 4")
    first, second, *_ = snapshots(lake)
    lake.warden.version.tag(f"{ORDERS}@{second}", "v1").apply()
    lake.warden.version.branch(f"{ORDERS}@{first}", "dev").apply()
    row = pa.table({"id": [900], "city": ["on dev"]}, schema=SCHEMA)
    lake.catalog.load_table(ORDERS).append(row, branch="dev")
    lake.append(ORDERS)
    lake.append(ORDERS)
    return lake


class TestExactlyWhatThePlanSays:
    def check(self, lake: SmallLake, data: bool = True, kinds: bool = True, **options: Any) -> tuple[Any, Any]:
        """Plan and apply, and compare both with what a walk through folder and metadata finds before and after."""
        before = lake.catalog.load_table(ORDERS)
        contents = {ref: ids_at(lake, ORDERS, ref) for ref in before.metadata.refs if data}
        planned = lake.warden.retention.expire(ORDERS, **options)
        (action,) = planned.plan.actions
        gone = set(map(int, action.texts("snapshots")))
        left = {s.snapshot_id for s in before.metadata.snapshots} - gone
        free = reachable(before) - reachable(before, left)
        disk = files_in(before)
        superseded = {file for file in own_metadata(before) if file in listed(planned.plan)}
        assert listed(planned.plan) == {path: disk[path] for path in free | superseded}
        there = {file.kind for file in action.files.items}
        assert ({"data", "manifest", "manifest-list"} if kinds else {"manifest-list"}) <= there

        report = planned.apply()

        after = lake.catalog.load_table(ORDERS)
        assert {s.snapshot_id for s in after.metadata.snapshots} == left
        assert set(disk) - set(files_in(after)) == set(listed(planned.plan))  # these and no others have left
        assert orphans(after) == set()
        assert all(on_disk(entry.metadata_file).exists() for entry in after.metadata.metadata_log)
        gone_tags = set(action.texts("tags"))
        assert set(after.metadata.refs) == set(before.metadata.refs) - gone_tags
        for ref in after.metadata.refs if data else ():
            assert ids_at(lake, ORDERS, ref) == contents[ref]
        for snapshot in left if data else ():
            ids_at(lake, ORDERS, snapshot)  # every version that is left can be read
        return planned.plan, report

    def test_into_quarantine(self, busy: SmallLake) -> None:
        before = files_in(busy.catalog.load_table(ORDERS))
        plan, report = self.check(busy, **ALL)
        kept = in_quarantine(busy.catalog.load_table(ORDERS))
        assert kept == {path.name: size for path, size in listed(plan).items()}
        (action,) = plan.actions
        of_all = sum(size for path, size in before.items() if path.suffix in (".parquet", ".avro"))
        lists = [path for path in before if path.name.startswith("snap-")]
        staying = [path for path in lists if path not in listed(plan)]
        assert report.result == {
            "actions": 1,
            "subjects": 1,
            "snapshots_total": 7,
            "snapshots_kept": 3,
            "snapshots_expired": 4,
            "tags_expired": 0,
            "files_quarantined": action.files.count,
            "bytes_quarantined": sum(kept.values()),
            "bytes_of_all_versions": of_all - sum(before[path] for path in staying),
            "percent": report.result["percent"],
        }
        share = 100 * report.result["bytes_quarantined"] / report.result["bytes_of_all_versions"]
        assert report.result["percent"] == round(share, 1) > 10

    def test_for_good(self, busy: SmallLake) -> None:
        configure(busy, quarantine={"expired_files": "never"})
        plan, report = self.check(busy, **ALL)
        assert in_quarantine(busy.catalog.load_table(ORDERS)) == {}
        assert report.result["bytes_freed"] == plan.actions[0].files.bytes
        assert report.result["files_removed"] == plan.actions[0].files.count
        assert "delete files" in plan.actions[0].says

    def test_with_superseded_metadata(self, busy: SmallLake) -> None:
        aged(busy, ORDERS, 2)
        before = busy.catalog.load_table(ORDERS)
        plan, _ = self.check(busy, **ALL)
        metadata = {file.path for file in plan.actions[0].files.items if file.kind == "metadata"}
        assert metadata == {entry.metadata_file for entry in before.metadata.metadata_log}
        assert busy.warden.retention.expire(ORDERS, **ALL).is_empty

    def test_only_superseded_metadata(self, lake: SmallLake) -> None:
        lake.create(ORDERS, appends=1)
        for number in range(3):
            lake.warden.version.tag(ORDERS, f"v{number}").apply()
        aged(lake, ORDERS, 2)
        planned = lake.warden.retention.expire(ORDERS, **ALL)
        assert [action.says for action in planned.plan.actions] == ["move superseded metadata to quarantine"]
        report = planned.apply()
        assert report.result["files_quarantined"] == 4 and report.result["snapshots_expired"] == 0
        assert orphans(lake.catalog.load_table(ORDERS)) == set()
        assert len(lake.catalog.load_table(ORDERS).metadata.metadata_log) == 1  # that of this commit, which is young
        assert lake.warden.retention.expire(ORDERS, **ALL).is_empty

    def test_files_outside_of_its_location_are_left_and_told(self, lake: SmallLake, tmp_path: Path) -> None:
        import pyarrow.parquet as pq

        lake.create(ORDERS, appends=0)
        elsewhere = tmp_path / "elsewhere.parquet"
        pq.write_table(pa.table({"id": [1], "city": ["x"]}, schema=SCHEMA), elsewhere)
        table = lake.catalog.load_table(ORDERS)
        table.add_files([f"file://{elsewhere}"])
        table.delete("id = 1")
        lake.append(ORDERS)
        planned = lake.warden.retention.expire(ORDERS, **ALL)
        assert planned.plan.warnings == ("main.sales.orders: 1 files outside of its location are not removed",)
        planned.apply()
        assert elsewhere.exists() and elsewhere not in listed(planned.plan)

    @pytest.mark.filterwarnings("ignore:Delete operation did not match")
    @pytest.mark.parametrize("seed", [0, 1, *in_soak(*range(2, 6))])
    def test_whatever_the_history_is_like(self, lake: SmallLake, seed: int) -> None:
        chance = random.Random(seed)
        lake.create(ORDERS, appends=2)
        for number in range(14):
            _something(lake, chance, number)
        aged(lake, ORDERS, 3)
        lake.append(ORDERS)
        policy: dict[str, Any] = {"keep_last": chance.randint(1, 3), "keep_days": chance.randint(0, 2)}
        self.check(lake, kinds=False, **policy, keep_tagged=chance.random() < 0.7)
        assert lake.warden.retention.expire(ORDERS, **policy).is_empty

    def test_every_version_is_told_with_its_reasons(self, busy: SmallLake) -> None:
        plan = busy.warden.retention.expire(ORDERS, **ALL).plan
        made, told = snapshots(busy), {int(v.item): (v.verdict, list(v.reasons)) for v in plan.verdicts}
        assert told[busy.head()] == ("kept", ["current", "recent (top 1)"])
        assert told[made[1]] == ("kept", ["tagged (v1)"])
        assert told[busy.refs()["dev"]] == ("kept", ["branch head (dev)", "recent (top 1) on dev"])
        assert {verdict for verdict, reasons in told.values() if not reasons} == {"expired"}
        assert [v.at for v in plan.verdicts] == sorted((v.at for v in plan.verdicts), reverse=True)


class TestRepresentations:
    """A version that was rewritten is held by the newest snapshot of it; the older ones expire after a while."""

    @pytest.fixture
    def merged(self, lake: SmallLake) -> SmallLake:
        """Twelve versions, and the last of them once more with its manifests merged."""
        lake.create(ORDERS, appends=12)
        lake.warden.compaction.manifests(ORDERS).apply()
        return lake

    def test_after_the_grace_the_older_one_expires_and_the_rest_can_be_read_by_time(self, merged: SmallLake) -> None:
        *_, twelfth, rewritten = snapshots(merged)
        assert merged.warden.retention.expire(ORDERS).is_empty
        aged(merged, ORDERS, 2)
        times = {s.snapshot_id: s.timestamp_ms for s in merged.catalog.load_table(ORDERS).metadata.snapshots}

        planned = merged.warden.retention.expire(ORDERS)
        assert [v.item for v in planned.plan.verdicts if v.verdict == "expired"] == [str(twelfth)]
        assert [v.reasons for v in planned.plan.verdicts if v.verdict == "expired"] == [(f"same rows as {rewritten}",)]
        planned.apply()

        assert merged.warden.retention.expire(ORDERS).is_empty
        assert set(snapshots(merged)) == set(times) - {twelfth}
        for number, snapshot in enumerate(list(times)[:12], start=1):
            at = from_millis(times[snapshot]).isoformat()
            assert len(merged.warden.version.read(f"{ORDERS}@{at}", limit=100)) == 2 * number
        merged.warden.version.rollback(f"{ORDERS}@{snapshots(merged)[4]}").apply()
        assert len(merged.ids(ORDERS)) == 10

    def test_the_grace_is_configured_or_given(self, merged: SmallLake) -> None:
        aged(merged, ORDERS, 2)
        configure(merged, tables={ORDERS: {"retention": {"reader_grace": "3d"}}})
        assert merged.warden.retention.expire(ORDERS).is_empty
        assert not merged.warden.retention.expire(ORDERS, reader_grace="1h").is_empty
        shown = {row.name: (row.value, row.source) for row in merged.warden.policy.show(ORDERS)}
        assert shown["reader_grace"] == ("3d", f"tables: {ORDERS}")

    def test_a_rollback_to_the_older_one_after_planning_makes_the_plan_stale(self, merged: SmallLake) -> None:
        aged(merged, ORDERS, 2)
        planned = merged.warden.retention.expire(ORDERS)
        merged.warden.version.rollback(f"{ORDERS}@{snapshots(merged)[11]}").apply()
        with pytest.raises(StalePlan, match="branch main is at snapshot"):
            planned.apply()


class TestOptions:
    def test_nothing_old_nothing_planned(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS)
        assert planned.is_empty and len(planned.plan.verdicts) == 7
        assert busy.run("retention", "expire", ORDERS, "--check").returncode == 0

    def test_an_option_wins_over_the_configuration(self, busy: SmallLake) -> None:
        configure(busy, tables={ORDERS: {"production": True, "retention": {"keep_last": 1, "production_keep_days": 0}}})
        assert not busy.warden.retention.expire(ORDERS).is_empty
        assert busy.warden.retention.expire(ORDERS, keep_last=50).is_empty
        assert busy.warden.retention.expire(ORDERS, keep_days=1).is_empty
        assert busy.warden.retention.expire(ORDERS, production_keep_days=1).is_empty

    def test_days_for_one_run_do_not_shorten_production_unless_that_is_said(self, lake: SmallLake) -> None:
        for name in ("gold.orders", "bronze.orders"):
            lake.create(name, appends=3)
        days_later(lake, 10)
        few: dict[str, Any] = {"keep_last": 1, "keep_days": 5}
        with pytest.raises(BadValue, match="keeps its versions for 730 days, but --keep-days is 5") as refused:
            lake.warden.retention.expire("gold.orders", **few)
        assert "--even-production" in refused.value.hint
        plan = lake.warden.retention.expire(all=True, **few).plan
        assert ([action.subject for action in plan.actions], [finding.subject for finding in plan.refused]) == (
            ["main.bronze.orders"],
            ["main.gold.orders"],
        )
        assert len(lake.warden.retention.expire("gold.orders", even_production=True, **few).plan.actions) == 1
        assert len(lake.warden.retention.expire("gold.orders", production_keep_days=5, **few).plan.actions) == 1
        assert lake.warden.retention.expire("gold.orders", keep_last=1, keep_days=800).is_empty

    def test_tags_whose_time_is_over(self, lake: SmallLake) -> None:
        lake.create(ORDERS, appends=3)
        oldest = snapshots(lake)[0]
        lake.warden.version.tag(f"{ORDERS}@{oldest}", "short", keep="1d", note="for a day").apply()
        days_later(lake, 3)
        told = lake.warden.retention.expire(ORDERS, **ALL)
        warning = "main.sales.orders: the keep period of tag short is over; --expire-tags removes it"
        assert told.plan.warnings[0] == warning and "tag short alone keeps" in told.plan.warnings[1]
        told.apply()
        assert oldest in snapshots(lake) and lake.refs()["short"] == oldest

        gone = lake.warden.retention.expire(ORDERS, **ALL, expire_tags=True)
        assert "and 1 tag (short)" in gone.plan.actions[0].says
        assert gone.apply().result["tags_expired"] == 1
        table = lake.catalog.load_table(ORDERS)
        assert set(lake.refs()) == {"main"} and "lakewarden.note.short" not in table.metadata.properties
        assert orphans(table) == set()

    @pytest.mark.spark
    def test_staged_versions_that_were_never_published_are_named(self, lake: SmallLake) -> None:
        lake.create(ORDERS, appends=1)
        session = lake.warden.ground.spark.session()
        session.sql(f"ALTER TABLE main.{ORDERS} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        session.conf.set("spark.wap.id", "load 7")
        try:
            session.sql(f"INSERT INTO main.{ORDERS} VALUES (99, 'staged')")
        finally:
            session.conf.unset("spark.wap.id")
        (staged,) = set(snapshots(lake)) - {lake.head()}
        assert lake.warden.retention.expire(ORDERS, **ALL).is_empty

        days_later(lake, 2)
        plan = lake.warden.retention.expire(ORDERS, **ALL).plan
        why = "staged, not published (wap.id load 7)"
        assert plan.warnings == (f"main.{ORDERS}: version {staged} expires, which was {why}",)
        assert [v.reasons for v in plan.verdicts if v.item == str(staged)] == [(why,)]

    def test_tags_that_keep_nothing(self, busy: SmallLake) -> None:
        busy.warden.retention.expire(ORDERS, **ALL, keep_tagged=False).apply()
        assert set(busy.refs()) == {"main", "dev"} and len(snapshots(busy)) == 2

    def test_which_tables(self, busy: SmallLake) -> None:
        with pytest.raises(BadValue, match="no tables were selected"):
            busy.warden.retention.expire()
        with pytest.raises(BadValue, match="exclude each other"):
            busy.warden.retention.expire(ORDERS, all=True)

    def test_at_the_command_line(self, busy: SmallLake) -> None:
        options = ("retention", "expire", ORDERS, "--keep-last", "1", "--keep-days", "0", "--json")
        plan = json.loads(busy.run(*options, "--files").stdout)["plan"]
        assert {v["verdict"] for v in plan["verdicts"]} == {"kept", "expired"}
        shown = busy.run(*options[:-1], "--files").stdout
        assert "recent (top 1)" in shown and "tagged (v1)" in shown
        assert all(path.name in "".join(shown.split()) for path in _paths(plan))
        done = json.loads(busy.run(*options, "--apply").stdout)
        assert done["operation"]["state"] == "done" and done["result"]["percent"] > 0
        assert "Nothing to do." in busy.run(*options[:-1]).stdout


class TestWhatForbidsIt:
    def test_a_table_that_forbids_deletion(self, busy: SmallLake) -> None:
        with busy.catalog.load_table(ORDERS).transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        assert busy.warden.retention.expire(ORDERS).is_empty  # nothing to do, nothing to refuse
        with pytest.raises(DeletionForbidden, match="gc.enabled=false") as caught:
            busy.warden.retention.expire(ORDERS, **ALL)
        assert "set gc.enabled to true" in caught.value.hint

    def test_among_others_they_still_run(self, busy: SmallLake) -> None:
        busy.create("sales.other", appends=3)
        with busy.catalog.load_table(ORDERS).transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        before = files_in(busy.catalog.load_table(ORDERS))
        options = ("--all", "--keep-last", "1", "--keep-days", "0", "--apply", "--json")
        done = busy.run("retention", "expire", *options, check=1)
        told = json.loads(done.stdout)["error"]["message"]
        assert "gc.enabled=false" in told and "set gc.enabled to true first" in told
        assert len(snapshots(busy, "sales.other")) == 1 and len(snapshots(busy)) == 7
        assert files_in(busy.catalog.load_table(ORDERS)) == before

    def test_a_manifest_that_is_gone(self, busy: SmallLake) -> None:
        table = busy.catalog.load_table(ORDERS)
        lost = on_disk(table.metadata.snapshots[0].manifests(table.io)[0].manifest_path)
        lost.unlink()
        busy.warden.close()
        busy.warden = Warden.open(busy.folder)
        with pytest.raises(BrokenTable, match=lost.name):
            busy.warden.retention.expire(ORDERS, **ALL)
        assert len(snapshots(busy)) == 7


class TestRollbackAfterwards:
    def test_over_gaps_after_several_expiries(self, lake: SmallLake) -> None:
        lake.create(ORDERS, appends=3)
        made = snapshots(lake)
        for tag, at in (("a", made[0]), ("b", made[1])):
            lake.warden.version.tag(f"{ORDERS}@{at}", tag).apply()
        for _ in range(2):
            lake.append(ORDERS)
            lake.append(ORDERS)
            lake.warden.retention.expire(ORDERS, **ALL).apply()
        assert snapshots(lake) == [made[0], made[1], lake.head()]
        lake.warden.version.rollback(f"{ORDERS}@b").apply()
        assert lake.ids() == [0, 1, 2, 3]
        lake.warden.version.rollback(f"{ORDERS}@a").apply()
        assert lake.ids() == [0, 1]

    def test_a_time_in_a_gap_has_expired(self, lake: SmallLake) -> None:
        lake.create(ORDERS, appends=2)
        time.sleep(1.1)
        within = lake.catalog.load_table(ORDERS).history()[-1].timestamp_ms // 1000 + 1
        lake.append(ORDERS)
        lake.warden.retention.expire(ORDERS, **ALL).apply()
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(within))
        with pytest.raises(VersionNotFound, match="has expired"):
            lake.warden.version.show(f"{ORDERS}@{moment}")
        with pytest.raises(VersionNotFound, match="has expired"):
            lake.warden.version.show(f"{ORDERS}@2020-01-01T00:00:00Z")

    def test_before_a_table_was_written_there_was_nothing(self, lake: SmallLake) -> None:
        lake.create(ORDERS, appends=2)
        with pytest.raises(VersionNotFound, match="had no version"):
            lake.warden.version.show(f"{ORDERS}@2020-01-01T00:00:00Z")


class TestRaces:
    def test_a_tag_made_after_the_plan(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        going = int(planned.plan.actions[0].texts("snapshots")[0])
        busy.warden.version.tag(f"{ORDERS}@{going}", "late").apply()
        before, there = files_in(busy.catalog.load_table(ORDERS)), snapshots(busy)
        with pytest.raises(StalePlan, match=f"tag late is at snapshot {going}"):
            planned.apply()
        assert (files_in(busy.catalog.load_table(ORDERS)), snapshots(busy)) == (before, there)
        assert busy.refs()["late"] == going

    def test_an_append_after_the_plan(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        before = busy.ids()
        new = busy.append()
        report = planned.apply()
        assert report.result["snapshots_kept"] == 4  # as it was counted afterwards, with the new one
        assert busy.head() == new and len(busy.ids()) == len(before) + 2
        assert orphans(busy.catalog.load_table(ORDERS)) == set()

    def test_a_tag_made_between_the_look_and_the_commit(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        going = int(planned.plan.actions[0].texts("snapshots")[0])
        before = set(files_in(busy.catalog.load_table(ORDERS)))
        with Warden.open(busy.folder) as other:
            uuid = str(busy.catalog.load_table(ORDERS).metadata.table_uuid)
            tag = RefChange(f"main.{ORDERS}", uuid, {"late": None}, set=(SetRef("late", "tag", going),))
            met = Interloper(busy.catalog, lambda: _publish(other, tag))
            with pytest.raises(StalePlan, match="tag late"):
                planned.apply()
        assert met.seen == 1 and busy.refs()["late"] == going
        assert before <= set(files_in(busy.catalog.load_table(ORDERS)))
        assert orphans(busy.catalog.load_table(ORDERS)) == set()  # nor is our own try left lying about

    def test_an_append_between_the_look_and_the_commit(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        with Warden.open(busy.folder) as other:
            outside = other.ground.catalogs.get("main")
            met = Interloper(busy.catalog, lambda: _append(outside, 77))
            planned.apply()
        assert met.seen == 2 and 77 in busy.ids()
        assert orphans(busy.catalog.load_table(ORDERS)) == set()

    def test_a_table_made_anew_under_the_same_name(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        busy.catalog.drop_table(ORDERS)
        busy.create(ORDERS, appends=1)
        before = files_in(busy.catalog.load_table(ORDERS))
        with pytest.raises(StalePlan, match="and is now"):
            planned.apply()
        assert files_in(busy.catalog.load_table(ORDERS)) == before

    def test_a_file_that_somebody_removed_meanwhile(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        first = next(iter(listed(planned.plan)))
        size = first.stat().st_size
        first.unlink()
        report = planned.apply()
        assert report.result["bytes_quarantined"] == planned.plan.actions[0].files.bytes - size


class TestWhatOperationsUnderWayNeed:
    @pytest.fixture
    def paused(self, busy: SmallLake) -> tuple[SmallLake, str, int]:
        """An operation that was interrupted, and needs the oldest version."""
        oldest = snapshots(busy)[0]
        id = _interrupted(busy, oldest)
        return busy, id, oldest

    def test_is_kept_when_the_plan_is_made(self, paused: tuple[SmallLake, str, int]) -> None:
        lake, id, oldest = paused
        planned = lake.warden.retention.expire(ORDERS, **ALL)
        (verdict,) = [v for v in planned.plan.verdicts if v.item == str(oldest)]
        assert (verdict.verdict, verdict.reasons) == ("kept", (f"leased by {id}",))
        planned.apply()
        assert oldest in snapshots(lake)
        lake.warden.operation.cancel(id)
        lake.warden.retention.expire(ORDERS, **ALL).apply()
        assert oldest not in snapshots(lake)

    def test_is_kept_when_it_began_after_the_plan(self, busy: SmallLake) -> None:
        planned = busy.warden.retention.expire(ORDERS, **ALL)
        oldest = snapshots(busy)[0]
        id = _interrupted(busy, oldest)
        before = files_in(busy.catalog.load_table(ORDERS))
        with pytest.raises(StalePlan, match=f"snapshot {oldest} is needed by {id}"):
            planned.apply()
        assert files_in(busy.catalog.load_table(ORDERS)) == before and oldest in snapshots(busy)


class TestManyTables:
    def test_many_tell_how_far_they_are(self, lake: SmallLake, soaking: bool) -> None:
        tables = 50 if soaking else 8
        for number in range(tables):
            lake.create(f"many.t{number:02}", appends=3)
        events: list[Any] = []
        report = lake.warden.retention.expire(all=True, **ALL).apply(watch=events.append)
        assert (report.result["subjects"], report.result["snapshots_expired"]) == (tables, 2 * tables)
        assert {event.phase for event in events} >= {"applying", "working", "applied", "verifying"}
        assert all(orphans(lake.catalog.load_table(f"many.t{number:02}")) == set() for number in range(tables))
        assert lake.warden.retention.expire(all=True, **ALL).is_empty

    def test_one_that_goes_stale_does_not_stop_the_others(self, busy: SmallLake) -> None:
        busy.create("sales.other", appends=3)
        planned = busy.warden.retention.expire(all=True, **ALL)
        going = int(planned.plan.actions[0].texts("snapshots")[0])
        busy.warden.version.tag(f"{ORDERS}@{going}", "late").apply()
        with pytest.raises(SomeFailed, match="1 of 2 failed"):
            planned.apply()
        assert len(snapshots(busy, "sales.other")) == 1 and len(snapshots(busy)) == 7


@pytest.mark.spark
class TestOnSpark:
    """Histories that Spark wrote, with its statistics; and format v3, where Spark alone can let versions go."""

    def sql(self, lake: SmallLake, *statements: str) -> None:
        for statement in statements:
            lake.warden.ground.spark.sql(statement).collect()

    def made_by_spark(self, lake: SmallLake, format: int) -> None:
        """A partitioned table with rows that are deleted on read, and statistics of an early and of a late version."""
        name, calls = f"main.{ORDERS}", f"table => '{ORDERS}'"
        lake.catalog.create_namespace_if_not_exists("sales")
        on_read = "'write.delete.mode' = 'merge-on-read'"
        self.sql(
            lake,
            f"CREATE TABLE {name} (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city) "
            f"TBLPROPERTIES ('format-version' = '{format}', {on_read})",
            f"INSERT INTO {name} SELECT id, 'a' FROM range(10)",
            f"INSERT INTO {name} SELECT id, 'b' FROM range(10, 20)",
            f"CALL main.system.compute_table_stats({calls})",
            f"CALL main.system.compute_partition_stats({calls})",
            f"DELETE FROM {name} WHERE id = 3",
            f"DELETE FROM {name} WHERE city = 'b'",
            f"INSERT INTO {name} SELECT id, 'c' FROM range(20, 30)",
            f"CALL main.system.compute_table_stats({calls})",
            f"CALL main.system.compute_partition_stats({calls})",
        )
        lake.warden.version.tag(f"{ORDERS}@{snapshots(lake)[0]}", "first").apply()

    @pytest.mark.parametrize("format", [2, *in_soak(3)])
    def test_exactly_what_the_plan_says(self, lake: SmallLake, format: int) -> None:
        self.made_by_spark(lake, format)
        before = lake.catalog.load_table(ORDERS)
        rows = lake.ids()
        plan, report = TestExactlyWhatThePlanSays().check(lake, **ALL, data=format == 2)
        kinds = Counter(file.kind for file in plan.actions[0].files.items)
        assert kinds["statistics"] == 2 and kinds["data"] == 1
        told = [*before.metadata.statistics, *before.metadata.partition_statistics]
        assert len(told) == 4
        after = lake.catalog.load_table(ORDERS)
        assert {s.snapshot_id for s in after.metadata.statistics} == {after.current_snapshot().snapshot_id}
        assert {s.snapshot_id for s in after.metadata.partition_statistics} == {after.current_snapshot().snapshot_id}
        assert lake.ids() == rows == sorted({*range(10), *range(20, 30)} - {3})
        measured = "bytes_quarantined" if format == 2 else "bytes_freed"
        assert report.result[measured] == plan.actions[0].files.bytes
        assert 0 < report.result["percent"] < 100
        sql = lake.warden.ground.spark.sql  # and Spark takes it as it is
        assert sql(f"SELECT count(*) FROM main.{ORDERS} VERSION AS OF 'first'").collect()[0][0] == 10
        self.sql(lake, f"INSERT INTO main.{ORDERS} VALUES (99, 'd')", f"DELETE FROM main.{ORDERS} WHERE id = 21")
        assert lake.ids() == sorted({*rows, 99} - {21})
        lake.warden.version.rollback(f"{ORDERS}@first").apply()  # over the gap
        assert lake.ids() == list(range(10))
        assert lake.warden.retention.expire(ORDERS, **ALL, keep_tagged=False).plan.actions

    def test_tags_with_keep_periods_on_v3(self, lake: SmallLake) -> None:
        lake.create(ORDERS, format=3, appends=4)
        oldest, second, *_ = snapshots(lake)
        lake.warden.version.tag(f"{ORDERS}@{oldest}", "short", keep="1d").apply()
        lake.warden.version.tag(f"{ORDERS}@{second}", "long", keep="900d", note="for the audit").apply()
        aged(lake, ORDERS, 3)
        with pytest.raises(Conflict, match="Iceberg's expiry on Spark would also remove tag short") as caught:
            lake.warden.retention.expire(ORDERS, **ALL)
        assert "--expire-tags" in caught.value.hint and len(snapshots(lake)) == 4
        configure(lake, defaults={"retention": ALL})
        (refused,) = lake.warden.policy.run().plan.refused  # which holds up nothing else of its upkeep
        assert refused.subject == f"main.{ORDERS}" and "--expire-tags" in refused.message

        report = lake.warden.retention.expire(ORDERS, **ALL, expire_tags=True).apply()
        assert report.result["tags_expired"] == 1 and report.result["snapshots_expired"] == 2
        assert lake.refs() == {"main": lake.head(), "long": second}
        assert snapshots(lake) == [second, lake.head()]
        assert orphans(lake.catalog.load_table(ORDERS)) == set()
        lake.warden.retention.expire(ORDERS, **ALL, keep_tagged=False).apply()
        table = lake.catalog.load_table(ORDERS)
        assert set(lake.refs()) == {"main"} and "lakewarden.note.long" not in table.metadata.properties

    def test_a_tag_that_comes_after_the_look_on_v3(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        """Iceberg itself looks once more: what has a name by then does not go."""
        lake.create(ORDERS, format=3, appends=3)
        oldest = snapshots(lake)[0]
        planned = lake.warden.retention.expire(ORDERS, **ALL)
        run = Procedures._run

        def tagged_before(self: Procedures, statement: str) -> dict[str, Any]:
            if "expire_snapshots" in statement:
                lake.warden.ground.spark.sql(f"ALTER TABLE main.{ORDERS} CREATE TAG late AS OF VERSION {oldest}")
            return run(self, statement)

        monkeypatch.setattr(Procedures, "_run", tagged_before)
        before = files_in(lake.catalog.load_table(ORDERS))
        with pytest.raises(LakewardenError):
            planned.apply()
        table = lake.catalog.load_table(ORDERS)
        assert lake.refs()["late"] == oldest and len(snapshots(lake)) == 3
        assert set(before) <= set(files_in(table)) and ids_at(lake, ORDERS, "late") == [0, 1]


def _something(lake: SmallLake, chance: random.Random, number: int) -> None:
    """Anything that people do to a table."""
    table = lake.catalog.load_table(ORDERS)
    some = chance.choice(snapshots(lake))
    match chance.choice(["append", "append", "delete", "overwrite", "tag", "branch", "on branch", "rollback"]):
        case "append":
            lake.append(ORDERS)
        case "delete":
            table.delete(f"id = {chance.choice([*ids_at(lake, ORDERS, lake.head()), -1])}")
        case "overwrite":
            table.overwrite(pa.table({"id": [number], "city": ["all anew"]}, schema=SCHEMA))
        case "tag":
            lake.warden.version.tag(f"{ORDERS}@{some}", f"t{number}").apply()
        case "branch":
            lake.warden.version.branch(f"{ORDERS}@{some}", f"branch-{number}").apply()
        case "on branch":
            branches = [name for name in table.metadata.refs if name.startswith("branch-")]
            if branches:
                rows = pa.table({"id": [1000 + number], "city": ["x"]}, schema=SCHEMA)
                table.append(rows, branch=chance.choice(branches))
        case "rollback":
            lake.warden.version.rollback(f"{ORDERS}@{some}", not_ancestor=True).apply()


def _paths(plan: dict[str, Any]) -> list[Path]:
    paths = [on_disk(file["path"]) for action in plan["actions"] for file in action["files"]["items"]]
    assert paths
    return paths


def _publish(warden: Warden, change: RefChange) -> None:
    from lakewarden.engine.files.manifests import Manifests
    from tests.engine.direct_commits import DirectCommits
    from tests.engine.lakes import STAMP, unfenced

    DirectCommits(warden.ground.tables, unfenced, STAMP, Manifests()).publish(change)


def _append(catalog: Any, id: int) -> None:
    catalog.load_table(ORDERS).append(pa.table({"id": [id], "city": ["x"]}, schema=SCHEMA))


def _interrupted(lake: SmallLake, snapshot: int) -> str:
    """An operation that was interrupted before it tagged a version, which it needs until it is resumed."""
    id = lake.warden.version.tag(f"{ORDERS}@{snapshot}", "needs-it").store()
    lake.warden.ground.journal.move(id, State.RUNNING, lake.warden.ground.clock())
    lake.warden.ground.journal.move(id, State.PAUSED, lake.warden.ground.clock())
    return str(id)


def test_an_idle_table_is_left_alone_in_the_end(lake: SmallLake) -> None:
    """A commit that drops entries of superseded metadata supersedes another file: one alone is not worth it."""
    lake.create(ORDERS, appends=3)
    planned = []
    for days in (100, 200, 300, 400):
        days_later(lake, days)
        plan = lake.warden.retention.expire(ORDERS)
        planned.append(not plan.is_empty)
        plan.apply()
    assert planned == [True, False, False, False]
