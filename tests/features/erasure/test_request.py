"""`erasure request`: at once nobody sees the rows, in any version; and no value shows anywhere.

Covers `engine/rows/shares.py`, `features/erasure/requests/request_keys.py` and
`features/erasure/requests/occurrences.py`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from lakewarden.errors import (
    BadValue,
    ColumnNotFound,
    LakewardenError,
    NotFound,
    TableNotFound,
    TracesLeft,
    UnsupportedTable,
)
from lakewarden.lifecycle.failpoints import when
from tests.cases import in_soak
from tests.features.erasure.independent_rows import local
from tests.features.erasure.people import SCHEMA, configured, ids, person, with_people
from tests.features.erasure.seen import seen
from tests.small_lake import SmallLake


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "4"),
        ("email", "p4@example.org"),
        ("number", "4.5"),
        ("code", "00000000-0000-0000-0000-000000000004"),
        ("user.email", "u4@example.org"),
        *in_soak(("born", "2000-01-05"), ("user.age", "4")),
    ],
)
def test_rows_are_hidden_at_once_by_keys_of_every_kind(any_lake: SmallLake, key: str, value: str) -> None:
    lake = with_people(any_lake)
    done = lake.warden.erasure.request("crm.people", key=key, value=[value])
    assert (done.values, done.tables) == (1, ["main.crm.people"])
    assert ids(lake) == [0, 1, 2, 3, 5]
    assert ids(lake, raw=True) == [0, 1, 2, 3, 4, 5]
    assert ids(lake, columns=["id", "user.age"]) == [0, 1, 2, 3, 5]
    assert len(lake.warden.version.read("crm.people", columns=["born"], limit=3)) == 3


def test_a_table_that_cannot_be_purged_is_refused_before_anything_is_registered(lake: SmallLake) -> None:
    with_people(lake)
    with lake.catalog.load_table("crm.people").transaction() as change:
        change.set_properties({"encryption.key-id": "k1"})
    with pytest.raises(UnsupportedTable, match=r"main\.crm\.people is encrypted"):
        lake.warden.erasure.request("crm.people", key="id", value=["4"], look=False)
    assert lake.warden.erasure.list() == []


def test_earlier_versions_hide_them_too_also_where_the_column_had_another_name(lake: SmallLake) -> None:
    with_people(lake)
    lake.warden.version.tag("crm.people", "v1").apply()
    with lake.catalog.load_table("crm.people").update_schema() as change:
        change.rename_column("email", "mail")
    lake.warden.erasure.request("crm.people", key="mail", value=["p1@example.org", "p5@example.org"])
    assert ids(lake) == ids(lake, "crm.people@v1") == [0, 2, 3, 4]
    table = lake.catalog.load_table("crm.people")
    first = min(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number)
    assert ids(lake, f"crm.people@{first.snapshot_id}") == [0, 2]


def test_very_many_values(lake: SmallLake) -> None:
    with_people(lake)
    values = [f"p{n}@example.org" for n in range(2, 20_000)] * 2
    assert lake.warden.erasure.request("crm.people", key="email", value=values).values == 19_998
    lake.warden.erasure.request("crm.people", key="user.email", value=[f"x{n}" for n in range(3_000)])
    assert ids(lake) == [0, 1]
    assert lake.warden.version.read("crm.people", columns=["user.age"], limit=1).rows == [{"user": None}]
    assert lake.warden.version.read("crm.people", columns=["user.age"], where="id = 1").rows == [{"user": {"age": 1}}]


def test_a_key_that_was_promoted_since_a_version(lake: SmallLake) -> None:
    with_people(lake)
    lake.warden.version.tag("crm.people", "v1").apply()
    with lake.catalog.load_table("crm.people").update_schema() as change:
        change.update_column(("user", "age"), LongType())
    values = ["2", str(2**40), *(str(n) for n in range(10, 3_000))]
    lake.warden.erasure.request("crm.people", key="user.age", value=values)
    assert ids(lake) == ids(lake, "crm.people@v1") == [0, 1, 3, 4, 5]


@pytest.mark.spark
def test_spark_leaves_them_out_and_no_plan_of_it_holds_a_value(lake: SmallLake) -> None:
    with_people(lake)
    lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    lake.warden.erasure.request("crm.people", key="user.age", value=["2"])
    lake.warden.erasure.request("crm.people", key="born", value=["2000-01-02"])
    frame = lake.warden.dataframe("crm.people")
    assert sorted(row.id for row in frame.select("id").collect()) == [0, 3, 5]
    text = frame._jdf.queryExecution().toString()
    assert "p4@example.org" not in text and "2000-01-02" not in text


class TestTheJournal:
    def test_has_who_registered_and_for_whom_and_no_value(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        given = {"key": "email", "value": ["p4@example.org"], "requester": "Support", "reason": "p4@example.org wrote"}
        done = lake.warden.erasure.request("crm.people", **given)
        [row] = lake.warden.operation.list(kind="erasure.request", subject="crm.people")
        assert (row.target, row.state, row.done, row.actions) == ("main.crm.people", "done", 1, 1)
        assert row.who == lake.warden.runner().actor
        shown = lake.warden.operation.show(row.id)
        assert shown.result == {"request": done.id, "requester": "Support", "values": 1}
        assert (shown.request["table"], shown.request["key"]) == ("crm.people", "email")
        assert [step.says for step in shown.steps] == [f"registered {done.id}"]
        assert "p4@example.org" not in repr(lake.warden.ground.journal.get(row.id))

    @pytest.mark.parametrize(
        ("requester", "is_kept"), [("Ann <P4@Example.org>", False), ("Ann (4)", False), ("p44@example.org", True)]
    )
    def test_who_asks_for_themselves_is_not_named(self, lake: SmallLake, requester: str, is_kept: bool) -> None:
        with_people(lake)
        lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org", "4"], requester=requester)
        [row] = lake.warden.operation.list(kind="erasure.request")
        assert (lake.warden.operation.show(row.id).result["requester"] == requester) is is_kept

    def test_one_request_about_many_tables_is_found_by_each(self, lake: SmallLake) -> None:
        for name in ("crm.people", "web.people"):
            with_people(lake, name)
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "user.email"}})
        lake.warden.erasure.request(subject="customer", value=["p3@example.org"])
        [by_one], [by_other] = (lake.warden.operation.list(subject=name) for name in ("crm.people", "web.people"))
        assert by_one == by_other and (by_one.target, by_one.actions) == ("customer", 2)

    def test_what_cannot_be_recorded_is_not_registered(self, lake: SmallLake) -> None:
        with_people(lake)
        lake.warden.erasure.list()
        with sqlite3.connect(lake.folder / "lakewarden.db") as database:
            database.execute("CREATE TRIGGER full BEFORE INSERT ON steps BEGIN SELECT RAISE(ABORT, 'full'); END")
        with pytest.raises(LakewardenError, match="full"):
            lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
        assert lake.warden.erasure.list() == []
        assert 4 in ids(lake)

    def test_has_no_record_of_what_was_refused(self, lake: SmallLake) -> None:
        with_people(lake)
        with pytest.raises(BadValue):
            lake.warden.erasure.request("crm.people", key="id", value=["secret"])
        assert lake.warden.operation.list() == []


class TestSubjects:
    def test_one_person_in_many_tables(self, lake: SmallLake) -> None:
        for name in ("crm.people", "web.people", "web.others"):
            with_people(lake, name)
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "user.email"}})
        done = lake.warden.erasure.request(subject="customer", value=["p3@example.org"])
        assert (done.tables, done.values) == (["main.crm.people", "main.web.people"], 1)
        assert [note for note in done.notes if "web.others also has email, user.email" in note]
        assert any("Other engines still see these rows" in note for note in done.notes)
        assert ids(lake) == [0, 1, 2, 4, 5]
        assert ids(lake, "web.people") == ids(lake, "web.others") == [0, 1, 2, 3, 4, 5]

    def test_an_unknown_subject(self, lake: SmallLake) -> None:
        configured(lake, subjects={"customer": {"crm.people": "email"}})
        with pytest.raises(NotFound, match="no subject custmer") as caught:
            lake.warden.erasure.request(subject="custmer", value=["x"])
        assert "customer" in caught.value.hint


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "error", "message"),
        [
            ({"key": "id", "value": ["4", "secret"]}, BadValue, "main.crm.people, id: value 2 is not of type long"),
            ({"key": "id", "value": ["9223372036854775808"]}, BadValue, "value 1 is not of type long"),
            ({"key": "number", "value": ["1.234"]}, BadValue, "value 1 is not of type decimal"),
            ({"key": "born", "value": ["2000-02-30"]}, BadValue, "value 1 is not of type date"),
            ({"key": "code", "value": ["secret"]}, BadValue, "value 1 is not of type uuid"),
            ({"key": "emial", "value": ["secret"]}, ColumnNotFound, "has no column emial"),
            ({"key": "user", "value": ["secret"]}, BadValue, "which cannot be a key"),
            ({"key": "id"}, BadValue, "no values were given"),
            ({"value": ["secret"]}, BadValue, "is not configured"),
        ],
    )
    def test_is_told_without_the_value_and_registers_nothing(
        self, lake: SmallLake, given: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with_people(lake)
        with pytest.raises(error, match=message) as caught:
            lake.warden.erasure.request("crm.people", **given)
        assert "secret" not in f"{caught.value} {getattr(caught.value, 'hint', '')}"
        assert lake.warden.erasure.list() == []
        assert ids(lake) == [0, 1, 2, 3, 4, 5]

    def test_no_such_table(self, lake: SmallLake) -> None:
        with pytest.raises(TableNotFound):
            lake.warden.erasure.request("crm.people", key="id", value=["1"])

    def test_quotes_and_unicode_just_work(self, lake: SmallLake) -> None:
        with_people(lake)
        odd = 'o\'brien "x"; -- \\ é日本😀\t@example.org'
        rows = pa.Table.from_pylist([{**person(7), "email": odd}], schema=SCHEMA)
        lake.catalog.load_table("crm.people").append(rows)
        lake.warden.erasure.request("crm.people", key="email", value=[odd])
        assert ids(lake) == [0, 1, 2, 3, 4, 5]


def occurrences(done: Any) -> dict[str, int]:
    return {each.table: each.values for each in done.occurrences}


class TestLooking:
    def test_how_many_values_occur_in_which_tables(self, lake: SmallLake) -> None:
        with_people(with_people(lake), "web.people", rows=4)
        lake.catalog.load_table("crm.people").delete("id = 1")  # still in an earlier version
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "email"}})
        values = ["p1@example.org", "p2@example.org", "p5@example.org", "p9@example.org", "P3@example.org"]
        done = lake.warden.erasure.request(subject="customer", value=values)
        assert done.values == lake.warden.erasure.list()[0].values == 5
        assert occurrences(done) == {"main.crm.people": 3, "main.web.people": 2}
        assert "2 of 5 values occur in no version of these tables" in done.notes
        [near] = [note for note in done.notes if "in another spelling" in note]
        assert near.startswith("1 of them occurs") and near.endswith("with --ignore-case")
        assert not [value for value in values if value in str(done)]
        assert lake.warden.erasure.request(subject="customer", value=values, look=False).occurrences == []

    def test_what_cannot_be_read_is_a_note_and_the_request_stands(self, lake: SmallLake) -> None:
        with_people(lake)
        table = lake.catalog.load_table("crm.people")
        for task in table.scan().plan_files():
            local(task.file.file_path).write_bytes(b"damaged")
        done = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"])
        assert done.occurrences == [] and "main.crm.people could not be searched for the values" in done.notes[-1]
        assert [row.id for row in lake.warden.erasure.list()] == [done.id]


class TestSpellings:
    def test_all_that_are_stored_are_hidden_purged_and_proved(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        add(lake, {7: " P4@Example.org", 8: "p4@EXAMPLE.org\t"})
        asked = {"key": "email", "value": ["P4@example.ORG"], "ignore_case": True, "trim": True}
        done = lake.warden.erasure.request("crm.people", **asked)
        assert (done.values, occurrences(done)) == (1, {"main.crm.people": 1})
        assert any("other spellings are stored there and included" in note for note in done.notes)
        assert ids(lake) == [0, 1, 2, 3, 5]
        add(lake, {9: "p4@example.ORG "})
        assert 9 in ids(lake)  # until somebody looks again
        lake.warden.erasure.hide("crm.people").apply()
        assert ids(lake) == seen(lake) == [0, 1, 2, 3, 5]
        planned = lake.warden.erasure.purge("crm.people")
        assert planned.plan.actions[0].estimate.rows == 4
        assert planned.apply().result["rows_dropped_by_tombstones"] == 4
        assert ids(lake, raw=True) == [0, 1, 2, 3, 5]
        lake.warden.erasure.certificate(done.id, out=tmp_path / "c.html")
        said = lake.warden.erasure.certificate(done.id)
        assert said.says.startswith("Of 1 key value, 1 occurred in main.crm.people: 4 rows were erased")
        assert (said.values, said.ignoring) == (1, "case,trim") and len(said.value_hashes) == 5
        add(lake, {10: "P4@EXAMPLE.ORG"})
        with pytest.raises(LakewardenError, match="1 value came back"):
            lake.warden.erasure.watch("crm.people").apply()
        lake.warden.erasure.watch("crm.people", again=True).apply()
        assert ids(lake) == [0, 1, 2, 3, 5]

    def test_only_what_is_ignored(self, lake: SmallLake) -> None:
        with_people(lake)
        add(lake, {7: " p4@example.org", 8: "P4@example.org"})
        lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"], trim=True)
        assert ids(lake) == [0, 1, 2, 3, 5, 8]

    def test_a_proof_finds_one_that_came_after_the_purge_looked(self, lake: SmallLake) -> None:
        with_people(lake)
        done = lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"], ignore_case=True)
        when("purge.recorded", lambda: add(lake, {7: "P4@example.org"}))
        with pytest.raises(TracesLeft):
            lake.warden.erasure.purge("crm.people").apply()
        assert lake.warden.erasure.show(done.id).state == "open"
        lake.warden.erasure.purge("crm.people").apply()
        assert lake.warden.erasure.show(done.id).state == "closed" and ids(lake, raw=True) == [0, 1, 2, 3, 5]

    def test_one_that_only_a_file_has_that_nothing_references(self, lake: SmallLake) -> None:
        with_people(lake)
        table = lake.catalog.load_table("crm.people")
        before = set(lake.folder.rglob("*.parquet"))
        add(lake, {7: "P4@example.org"})
        [stray] = set(lake.folder.rglob("*.parquet")) - before
        kept = stray.read_bytes()
        table.refresh()
        lake.warden.version.rollback(f"crm.people@{table.metadata.snapshots[-2].snapshot_id}").apply()
        configured(lake, defaults={"retention": {"keep_last": 1, "keep_days": 0}, "orphans": {"older_than": "1h"}})
        lake.warden.version.untag("crm.people", next(t for t in lake.refs("crm.people") if t != "main")).apply()
        lake.warden.retention.expire("crm.people").apply()
        assert not stray.exists()
        stray.write_bytes(kept)
        os.utime(stray, (0, 0))
        lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"], ignore_case=True)
        lake.warden.erasure.purge("crm.people").apply()
        assert not stray.exists()

    def test_keys_of_other_types_have_none(self, lake: SmallLake) -> None:
        with_people(lake)
        with pytest.raises(BadValue, match="require a text key"):
            lake.warden.erasure.request("crm.people", key="id", value=["1"], trim=True)
        assert lake.warden.erasure.list() == []


def add(lake: SmallLake, emails: dict[int, str]) -> None:
    rows = [{**person(n), "email": email} for n, email in emails.items()]
    lake.catalog.load_table("crm.people").append(pa.Table.from_pylist(rows, schema=SCHEMA))


class TestDeadlines:
    def test_a_date_ends_with_its_day(self, lake: SmallLake) -> None:
        with_people(lake)
        done = lake.warden.erasure.request("crm.people", key="id", value=["1"], deadline="2099-12-31")
        assert done.deadline == datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)

    @pytest.mark.parametrize("wrong", ["2020-01-01", "2099-02-30", "soon"])
    def test_one_that_cannot_be_met(self, lake: SmallLake, wrong: str) -> None:
        with_people(lake)
        with pytest.raises(BadValue, match="deadline: "):
            lake.warden.erasure.request("crm.people", key="id", value=["1"], deadline=wrong)
        assert lake.warden.erasure.list() == []


class TestCommandLine:
    def test_values_from_stdin_and_files(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        (tmp_path / "a.csv").write_text('email,why\np1@example.org,asked\n"p2@example.org",asked\n')
        (tmp_path / "b.jsonl").write_text('{"email": "p3@example.org"}\n"p4@example.org"\n')
        command = ("erasure", "request", "crm.people", "--key", "email", "--json")
        done = lake.run(*command, "--value", "-", said="p5@example.org\r\n\n")
        assert json.loads(done.stdout)["values"] == 1
        for file in ("a.csv", "b.jsonl"):
            lake.run(*command, "--from-file", str(tmp_path / file))
        assert [row.values for row in lake.warden.erasure.list()] == [2, 2, 1]
        assert ids(lake) == [0]
        (tmp_path / "ids.csv").write_text("id;name\n1;x\nsecret;y\n")
        done = lake.run(
            "erasure", "request", "crm.people", "--key", "id", "--from-file", str(tmp_path / "ids.csv"), check=2
        )
        assert "ids.csv, line 3 is not of type long" in done.stderr and "secret" not in done.stderr

    @pytest.mark.parametrize(
        ("name", "content"), [("x.csv", ""), ("x.jsonl", "{broken secret"), ("x.csv", "\xff\xfe"), ("none.csv", None)]
    )
    def test_a_file_that_cannot_be_used(self, lake: SmallLake, tmp_path: Path, name: str, content: str | None) -> None:
        with_people(lake)
        if content is not None:
            (tmp_path / name).write_bytes(content.encode("latin-1"))
        asked = ("erasure", "request", "crm.people", "--key", "email", "--from-file", str(tmp_path / name))
        done = lake.run(*asked, check=2)
        assert done.stderr.count("\n") == 1 and "Nothing was registered" in done.stderr and "secret" not in done.stderr

    def test_values_are_in_no_file_of_the_installation_but_the_control_database(self, lake: SmallLake) -> None:
        with_people(lake)
        value = "p4@example.org"
        done = lake.run("erasure", "request", "crm.people", "--key", "email", "--value", "-", said=value)
        assert value not in done.stdout + done.stderr
        told = lake.run("erasure", "list", "--json").stdout + lake.run("operation", "list", "--json").stdout
        assert value not in told


def test_is_quick_and_needs_no_java(lake: SmallLake) -> None:
    with_people(lake)
    code = (
        "import sys\nfrom lakewarden import Warden\n"
        f"warden = Warden.open({str(lake.folder)!r})\n"
        "warden.erasure.request('crm.people', key='email', value=['p4@example.org'])\n"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "/nowhere", "HOME": str(lake.folder)})
    assert ids(lake) == [0, 1, 2, 3, 5]


@pytest.mark.parametrize(("value", "options"), [("", {}), ("  ", {"trim": True})])
def test_a_value_that_is_empty_is_refused(lake: SmallLake, value: str, options: dict[str, bool]) -> None:
    """It would name everybody whose key is empty."""
    with_people(lake)
    with pytest.raises(BadValue, match="value 2 is empty"):
        lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org", value], **options)
    assert lake.warden.erasure.list() == []


def test_spellings_that_nobody_looked_for_are_said_to_be_visible(lake: SmallLake) -> None:
    with_people(lake)
    done = lake.warden.erasure.request(
        "crm.people", key="email", value=["P1@example.org"], ignore_case=True, look=False
    )
    assert any("Other stored spellings stay visible until erasure hide" in note for note in done.notes)


def test_rows_that_others_rewrote_without_a_dropped_key_are_named_as_not_covered(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    table = lake.catalog.load_table("crm.people")
    assert not any("not covered" in each for each in lake.warden.erasure.purge("crm.people").plan.warnings)
    with table.update_schema() as change:
        change.delete_column("email")
    first = next(iter(table.scan().plan_files())).file
    with table.transaction() as rewrite, rewrite.update_snapshot().overwrite() as files:
        files.delete_data_file(first)
    planned = lake.warden.erasure.purge("crm.people", now=True)
    told = [each for each in planned.plan.warnings if "not covered" in each]
    assert len(told) == 1 and "without email" in told[0] and asked.id in told[0]
    assert "p4@" not in told[0]
    planned.apply()
    certified = lake.warden.erasure.certificate(asked.id).not_covered
    assert told[0] in certified
