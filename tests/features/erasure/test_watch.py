"""`erasure watch`: who was erased and comes back with new data is noticed, by digests alone.

Covers `engine/rows/column_texts.py`, `engine/rows/new_since.py`, `features/erasure/recurrence/returned_values.py` and
`features/erasure/recurrence/watch_action.py`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

from lakewarden.errors import BrokenTable, TracesLeft
from lakewarden.records.erasure import ErasureState, Evidence, EvidenceKind
from tests.cases import in_soak
from tests.features.compaction.compacted import Compactable
from tests.features.erasure.people import SCHEMA, configured, ids, person, with_people
from tests.killing import bury
from tests.small_lake import SmallLake


def forgotten(lake: SmallLake, key: str, *values: str, name: str = "crm.people") -> str:
    """A request that is closed: nobody of these values is in the table, and that was proved."""
    asked = lake.warden.erasure.request(name, key=key, value=list(values))
    table = lake.catalog.load_table(name)
    refs = {ref: at.snapshot_id for ref, at in table.metadata.refs.items()}
    tombstones, now = lake.warden.ground.state.erasure, datetime.now(UTC)
    uuid, proof = str(table.metadata.table_uuid), {"clean": True, "refs": refs}
    tombstones.record(
        Evidence(EvidenceKind.PROVED, f"main.{name}", uuid, f"op-{asked.id}", "prove", now, (asked.id,), proof)
    )
    tombstones.move(asked.id, ErasureState.CLOSED, now)
    return str(asked.id)


def arrive(lake: SmallLake, *numbers: int, name: str = "crm.people", **options: Any) -> None:
    rows = pa.Table.from_pylist([person(n) for n in numbers], schema=SCHEMA)
    lake.catalog.load_table(name).append(rows, **options)


def watched(lake: SmallLake) -> list[Evidence]:
    return list(lake.warden.ground.state.erasure.evidence([EvidenceKind.WATCHED]))


class TestNoticing:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("id", "8"),
            ("email", "p8@example.org"),
            ("number", "8.5"),
            ("code", "00000000-0000-0000-0000-000000000008"),
            ("user.email", "u8@example.org"),
            *in_soak(("born", "2000-01-09"), ("user.age", "8")),
        ],
    )
    def test_who_came_back_is_told_by_request_and_rows_and_by_no_value(
        self, any_lake: SmallLake, key: str, value: str
    ) -> None:
        lake = with_people(any_lake)
        request = forgotten(lake, key, value)
        arrive(lake, 7, 8)
        arrive(lake, 8, 9)
        planned = lake.warden.erasure.watch("crm.people")
        assert planned.plan.actions[0].files.count == 2
        with pytest.raises(TracesLeft, match=f"1 value came back after erasure .{request}.: 2 rows in 2 new") as caught:
            planned.apply()
        [told] = caught.value.details["came_back"]
        assert (told["request"], told["rows"], len(told["files"])) == (request, 2, 2)
        assert len(value) < 5 or value not in json.dumps(caught.value.document()) + str(caught.value)
        assert watched(lake)[0].requests == (request,)
        assert "--again" in caught.value.hint

    def test_nothing_is_planned_where_nothing_is_new(self, lake: SmallLake) -> None:
        with_people(lake)
        assert lake.warden.erasure.watch("crm.people").is_empty
        forgotten(lake, "email", "p8@example.org")
        assert lake.warden.erasure.watch("crm.people").is_empty
        arrive(lake, 6, 7)
        report = lake.warden.erasure.watch("crm.people").apply()
        assert (report.result["files_read"], report.result["rows_came_back"]) == (1, 0)
        assert lake.warden.erasure.watch("crm.people").is_empty
        assert lake.warden.erasure.watch().is_empty

    def test_files_are_read_once(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        for n in (10, 11, 12):
            arrive(lake, n)
            report = lake.warden.erasure.watch("crm.people").apply()
            assert report.result["files_read"] == report.result["rows_read"] == 1

    def test_whoever_came_back_is_told_until_somebody_does_something(self, lake: SmallLake) -> None:
        with_people(lake)
        request = forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        arrive(lake, 9)
        for files in (2, 1, 1):
            planned = lake.warden.erasure.watch("crm.people")
            assert planned.plan.actions[0].files.count == files
            with pytest.raises(TracesLeft, match=request):
                planned.apply()
        lake.catalog.load_table("crm.people").delete("id = 8")
        table = lake.catalog.load_table("crm.people")
        table.maintenance.expire_snapshots().by_ids(
            [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != table.current_snapshot().snapshot_id]
        ).commit()
        assert lake.warden.erasure.watch("crm.people").is_empty

    def test_on_a_branch_and_in_a_version_that_is_no_longer_current(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org", "p9@example.org")
        lake.warden.version.branch("crm.people", "dev").apply()
        arrive(lake, 8, branch="dev")
        arrive(lake, 9)
        lake.catalog.load_table("crm.people").delete("id = 9")
        with pytest.raises(TracesLeft, match="2 values came back .*: 2 rows in 2 new files"):
            lake.warden.erasure.watch("crm.people").apply()

    def test_a_request_that_closed_since_the_last_look_is_known_to_the_next(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 7)
        lake.warden.erasure.watch("crm.people").apply()
        second = forgotten(lake, "email", "p9@example.org")
        assert lake.warden.erasure.watch("crm.people").is_empty
        arrive(lake, 9)
        with pytest.raises(TracesLeft, match=second):
            lake.warden.erasure.watch("crm.people").apply()

    def test_what_came_between_a_proof_and_its_closing(self, lake: SmallLake) -> None:
        """The proof of another table may have taken long; a look in between did not know the request."""
        with_people(lake)
        forgotten(lake, "email", "p20@example.org")
        request = forgotten_later(lake, "p9@example.org")
        arrive(lake, 9)
        lake.warden.erasure.watch("crm.people").apply()
        lake.warden.ground.state.erasure.move(request, ErasureState.CLOSED, datetime.now(UTC))
        with pytest.raises(TracesLeft, match=request):
            lake.warden.erasure.watch("crm.people").apply()

    def test_a_column_that_was_renamed_and_one_that_was_promoted(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        forgotten(lake, "user.age", "9")
        with lake.catalog.load_table("crm.people").update_schema() as change:
            change.rename_column("email", "mail")
            change.update_column(("user", "age"), LongType())
        table = lake.catalog.load_table("crm.people")
        rows = [{**person(8), "mail": "p8@example.org"}, person(9), {**person(10), "user": {"age": 2**40}}]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
        with pytest.raises(TracesLeft, match="2 values came back"):
            lake.warden.erasure.watch("crm.people").apply()

    @pytest.mark.parametrize("format", [1, 2])
    def test_whatever_the_format(self, lake: SmallLake, format: int) -> None:
        lake.create("sales.orders", format=format, appends=3)
        forgotten(lake, "id", "8", name="sales.orders")
        assert lake.warden.erasure.watch("sales.orders").is_empty
        for _ in range(2):
            lake.append("sales.orders", rows=1)
            assert lake.warden.erasure.watch("sales.orders").apply().result["files_read"] == 1
            assert lake.warden.erasure.watch("sales.orders").is_empty
        lake.append("sales.orders", rows=1)
        with pytest.raises(TracesLeft, match="1 row in 1 new file"):
            lake.warden.erasure.watch("sales.orders").apply()

    def test_a_v1_table_that_becomes_v2_between_two_looks(self, lake: SmallLake) -> None:
        lake.create("sales.orders", format=1, appends=3)
        forgotten(lake, "id", "6", "7", name="sales.orders")
        lake.append("sales.orders", rows=1)
        with lake.catalog.load_table("sales.orders").transaction() as change:
            change.upgrade_table_version(2)
        with pytest.raises(TracesLeft, match="1 row in 1 new file"):
            lake.warden.erasure.watch("sales.orders").apply()
        lake.append("sales.orders", rows=1)
        with pytest.raises(TracesLeft, match="2 rows in 2 new files"):
            lake.warden.erasure.watch("sales.orders").apply()


def forgotten_later(lake: SmallLake, *values: str) -> str:
    """A request that is proved and not closed yet."""
    asked = lake.warden.erasure.request("crm.people", key="email", value=list(values))
    table = lake.catalog.load_table("crm.people")
    refs = {ref: at.snapshot_id for ref, at in table.metadata.refs.items()}
    uuid, proof = str(table.metadata.table_uuid), {"clean": True, "refs": refs}
    lake.warden.ground.state.erasure.record(
        Evidence(
            EvidenceKind.PROVED,
            "main.crm.people",
            uuid,
            f"op-{asked.id}",
            "prove",
            datetime.now(UTC),
            (asked.id,),
            proof,
        )
    )
    return str(asked.id)


class TestAgain:
    def test_asks_for_those_who_came_back_to_be_erased_again(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        with_people(lake, "web.people")
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "user.email"}})
        old = lake.warden.erasure.request(
            subject="customer", value=["p8@example.org", "p9@example.org"], deadline="30d"
        ).id
        lake.warden.ground.state.erasure.move(old, ErasureState.CLOSED, datetime.now(UTC))
        arrive(lake, 8)
        arrive(lake, 10)
        report = lake.warden.erasure.watch("crm.people", again=True).apply()
        assert (report.result["rows_came_back"], report.result["requests_registered"]) == (1, 1)
        new = lake.warden.erasure.show(report.result["registered"])
        assert (new.state, new.values, new.subject) == ("open", 1, "customer")  # one value, in two tables
        assert new.reason == f"came back after {old}" and (new.deadline - new.created_at).days == 30
        assert [(key.table, key.column) for key in new.keys] == [
            ("main.crm.people", "email"),
            ("main.web.people", "user.email"),
        ]
        assert ids(lake) == [0, 1, 2, 3, 4, 5, 10]  # hidden from now on
        assert watched(lake)[-1].document["came_back"][0]["again"] == new.id
        assert lake.warden.erasure.watch("crm.people").is_empty

    def test_once_is_enough(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        lake.warden.erasure.watch("crm.people", again=True).apply()
        arrive(lake, 8)
        report = lake.warden.erasure.watch("crm.people", again=True).apply()
        assert (report.result["rows_came_back"], report.result["requests_registered"]) == (0, 0)
        assert len(lake.warden.erasure.list(state=["open"])) == 1

    def test_after_it_was_told(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        with pytest.raises(TracesLeft):
            lake.warden.erasure.watch("crm.people").apply()
        report = lake.warden.erasure.watch("crm.people", again=True).apply()
        assert report.result["requests_registered"] == 1
        assert lake.warden.erasure.watch("crm.people").is_empty

    def test_a_kill_before_it_was_written_down_asks_for_nobody_twice(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        killed = lake.run("erasure", "watch", "--again", failpoints="kill@erasure.asked-again", check=None)
        assert killed.returncode == -9 and not watched(lake)
        bury(lake)
        lake.run("operation", "resume")
        assert len(lake.warden.erasure.list(state=["open"])) == 1 and len(watched(lake)) == 1
        assert lake.warden.erasure.watch("crm.people").is_empty

    def test_a_value_that_was_erased_twice_is_the_newer_requests(self, lake: SmallLake) -> None:
        with_people(lake)
        requests = sorted(forgotten(lake, "email", "p8@example.org") for _ in range(2))
        arrive(lake, 8)
        with pytest.raises(TracesLeft, match="1 value came back") as caught:
            lake.warden.erasure.watch("crm.people").apply()
        assert [told["request"] for told in caught.value.details["came_back"]] == requests[1:]


class TestFiles:
    def test_paths_that_tell_a_value_are_veiled(self, lake: SmallLake) -> None:
        with_people(lake)
        with lake.catalog.load_table("crm.people").update_spec() as spec:
            spec.add_identity("email")
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        shown = lake.run("erasure", "watch", "--plan", "--files", "--json").stdout
        told = lake.run("erasure", "watch", "--json", check=3).stdout
        assert "email=*/" in shown and "email=*/" in told
        assert "p8" not in shown + told

    def test_a_file_that_is_gone_or_damaged_is_named_without_a_value(self, lake: SmallLake) -> None:
        with_people(lake)
        with lake.catalog.load_table("crm.people").update_spec() as spec:
            spec.add_identity("email")
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 9)
        table = lake.catalog.load_table("crm.people")
        paths = [task.file.file_path for task in table.scan().plan_files()]
        file = Path(next(path for path in paths if "email=" in path).removeprefix("file://"))
        content = file.read_bytes()
        for damaged in (content[:-20], None):
            file.write_bytes(damaged) if damaged else file.unlink()
            with pytest.raises(BrokenTable, match=file.name) as caught:
                lake.warden.erasure.watch("crm.people").apply()
            assert "p9" not in str(caught.value) and "email=*/" in str(caught.value)
        file.write_bytes(content)
        lake.warden.erasure.watch("crm.people").apply()

    def test_files_that_came_by_another_way_and_know_no_ids(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        forgotten(lake, "user.email", "u8@example.org")
        forgotten(lake, "number", "9.50")
        path = tmp_path / "outside.parquet"
        pq.write_table(pa.Table.from_pylist([person(8), person(9)], schema=SCHEMA), path)
        lake.catalog.load_table("crm.people").add_files([f"file://{path}"])
        with pytest.raises(TracesLeft, match="2 values came back"):
            lake.warden.erasure.watch("crm.people").apply()

    def test_deletes_that_name_somebody(self, lake: SmallLake) -> None:
        lake.create("sales.orders")
        forgotten(lake, "id", "77", name="sales.orders")
        Compactable(lake, "sales.orders").delete_by_equality([77])
        with pytest.raises(TracesLeft, match="1 row in 1 new file"):
            lake.warden.erasure.watch("sales.orders").apply()

    def test_a_column_that_files_do_not_have(self, lake: SmallLake) -> None:
        with_people(lake)
        with lake.catalog.load_table("crm.people").update_schema() as change:
            change.add_column("phone", LongType())
        forgotten(lake, "phone", "12345")
        with lake.catalog.load_table("crm.people").update_schema() as change:
            change.delete_column("phone")
        arrive(lake, 7)
        assert lake.warden.erasure.watch("crm.people").apply().result["rows_read"] == 1

    @pytest.mark.spark
    def test_what_a_compaction_wrote_anew_is_not_looked_at_again(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        for n in range(10, 20):
            arrive(lake, n)
        lake.warden.erasure.watch("crm.people").apply()
        lake.warden.compaction.compact("crm.people").apply()
        assert lake.warden.erasure.watch("crm.people").is_empty
        arrive(lake, 8)
        for n in range(20, 30):
            arrive(lake, n)
        lake.warden.compaction.compact("crm.people").apply()
        with pytest.raises(TracesLeft, match="1 row in 1 new file"):
            lake.warden.erasure.watch("crm.people").apply()


class TestPolicy:
    def test_a_run_looks_last_of_all_and_tells_who_came_back(self, lake: SmallLake) -> None:
        configured(lake, defaults={"retention": {"keep_last": 1, "keep_days": 0}})
        with_people(lake)
        lake.create("sales.orders")
        request = forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        plan = lake.warden.policy.run(only=["retention", "watch"]).plan
        mine = [action.verb for action in plan.actions if action.subject == "main.crm.people"]
        assert mine[-1] == "watch" and "expire" in mine
        done = lake.run("policy", "run", "--only", "retention,watch", "--apply", "--json", check=3)
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "traces-left" and request in error["message"]
        assert len(lake.catalog.load_table("sales.orders").metadata.snapshots) == 1

    def test_it_is_left_out_where_that_is_said(self, lake: SmallLake) -> None:
        with_people(lake)
        forgotten(lake, "email", "p8@example.org")
        arrive(lake, 8)
        configured(lake, tables={"crm.*": {"erasure": {"grace": "1d"}}, "crm.people": {"erasure": {"watch": False}}})
        assert lake.warden.policy.run(only=["watch"]).is_empty
        assert lake.warden.erasure.watch().is_empty
        assert not lake.warden.erasure.watch("crm.people").is_empty  # said by name
        shown = {row.name: row for row in lake.warden.policy.show("crm.people")}["watch"]
        assert (shown.policy, shown.value, shown.source) == ("erasure", "no", "tables: crm.people")
        assert lake.warden.ground.settings.erasure("main", "crm.people").grace.days == 1

    def test_it_is_done_unless_said_otherwise(self, lake: SmallLake) -> None:
        with_people(lake)
        shown = {row.name: row for row in lake.warden.policy.show("crm.people")}["watch"]
        assert (shown.value, shown.source) == ("yes", "defaults")
        assert lake.warden.policy.run(only=["watch"]).is_empty
