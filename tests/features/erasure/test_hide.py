"""`erasure hide`: rows of open requests are hidden from every engine, on every branch.

Covers `features/erasure/hidden/hide_action.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden.engine.rows.position_deletes import is_hide, named_positions, served_requests
from lakewarden.engine.rows.shares import Owners
from lakewarden.errors import BadValue, Conflict, NotFound, SomeFailed
from lakewarden.features.erasure.hidden import visible_rows
from lakewarden.features.erasure.hidden.held_files import held_files
from lakewarden.lifecycle.failpoints import when
from lakewarden.records.erasure import ErasureState, EvidenceKind, HiddenKey
from tests import killing
from tests.cases import in_soak
from tests.features.compaction.compacted import Compactable
from tests.features.erasure.people import SCHEMA, configured, ids, person, with_people
from tests.features.erasure.seen import append, seen
from tests.small_lake import SmallLake
from tests.steps import steps


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
def test_rows_are_hidden_from_every_engine_by_keys_of_every_kind(any_lake: SmallLake, key: str, value: str) -> None:
    lake = with_people(any_lake)
    asked = lake.warden.erasure.request("crm.people", key=key, value=[value])
    planned = lake.warden.erasure.hide("crm.people")
    assert [action.says for action in planned.plan.actions] == ["hide 1 row of 1 request on branch main"]
    result = planned.apply().result
    assert (result["rows_hidden"], result["delete_files_written"], result["branches_changed"]) == (1, 1, 1)
    assert seen(lake) == ids(lake) == ids(lake, raw=True) == [0, 1, 2, 3, 5]
    assert lake.warden.erasure.show(asked.id).state == "open"
    assert lake.warden.erasure.hide("crm.people").is_empty


def test_branches_are_changed_and_tags_are_told(lake: SmallLake) -> None:
    with_people(lake)
    lake.warden.version.tag("crm.people", "v1").apply()
    lake.warden.version.branch("crm.people", "dev").apply()
    append(lake, 6)
    lake.warden.erasure.request("crm.people", key="id", value=["1", "6"])
    planned = lake.warden.erasure.hide("crm.people")
    assert [(a.arguments["branch"], a.estimate.rows) for a in planned.plan.actions] == [("main", 2), ("dev", 1)]
    assert "main.crm.people: tags cannot be changed and show these rows until a purge: v1" in planned.plan.warnings
    assert any("earlier versions" in warning for warning in planned.plan.warnings)
    planned.apply()
    assert seen(lake) == [0, 2, 3, 4, 5] and seen(lake, "dev") == [0, 2, 3, 4, 5]
    assert seen(lake, "v1") == [0, 1, 2, 3, 4, 5]
    again = lake.warden.erasure.hide("crm.people")
    assert again.is_empty and len(again.plan.warnings) == 1


def hide_files(lake: SmallLake, ref: str = "main") -> dict[str, tuple[set[int], set[str]]]:
    """For each data file with hidden rows: where they are, and which requests its one hide file serves."""
    table = lake.catalog.load_table("crm.people")
    files = lake.warden.ground.files.of(table, table.snapshot_by_name(ref))
    found = {}
    for delete in files.deletes:
        assert delete.only_for is not None and delete.only_for not in found
        (at,) = named_positions(lake.warden.ground.storage("main"), delete).values()
        found[delete.only_for] = (at, set(served_requests(delete.path, files.opened)))
    return found


def test_a_thousand_requests_leave_one_file_for_each_data_file(lake: SmallLake) -> None:
    """One for each request used to stay until they were purged, and every reader had to open them all."""
    with_people(lake, rows=28)
    asked = []
    for number in (3, 1, 2, 20, 15):
        asked.append(lake.warden.erasure.request("crm.people", key="id", value=[str(number)]).id)
        result = lake.warden.erasure.hide("crm.people").apply().result
        assert (result["rows_hidden"], result["delete_files_written"]) == (1, 1)
    assert sorted(hide_files(lake).values(), key=str) == [({1, 2, 3}, set(asked[:3])), ({1, 6}, set(asked[3:]))]
    assert seen(lake) == ids(lake) == [n for n in range(28) if n not in (1, 2, 3, 15, 20)]
    lake.warden.erasure.withdraw(asked[1]).apply()
    assert sorted(hide_files(lake).values(), key=str) == [({1, 6}, set(asked[3:])), ({2, 3}, {asked[0], asked[2]})]
    for request in asked[2:]:
        lake.warden.erasure.withdraw(request).apply()
    assert list(hide_files(lake).values()) == [({3}, {asked[0]})]
    assert seen(lake) == [n for n in range(28) if n != 3]


def test_a_row_that_two_requests_name_stays_hidden_for_the_other(lake: SmallLake) -> None:
    with_people(lake)
    one = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
    lake.warden.erasure.hide("crm.people").apply()
    two = lake.warden.erasure.request("crm.people", key="id", value=["4", "5"])
    planned = lake.warden.erasure.hide("crm.people")
    assert planned.plan.actions[0].arguments["requests"] == (two.id,)
    planned.apply()
    assert lake.warden.erasure.hide("crm.people").is_empty
    assert sorted(hide_files(lake).values(), key=str) == sorted([({1}, {one.id}), ({1, 2}, {one.id, two.id})], key=str)
    told = lake.warden.ground.state.erasure.evidence([EvidenceKind.HIDDEN], request=two.id)
    assert [evidence.requests for evidence in told] == [(two.id,)]
    document = told[0].document
    assert (document["branch"], document["rows"], document["snapshot"]) == (
        "main",
        {two.id: 2},
        lake.head("crm.people"),
    )
    assert [(file["rows"], file["hides"]) for file in document["files"]] == [(2, {two.id: 2})]
    lake.warden.erasure.withdraw(one.id).apply()
    assert seen(lake) == [0, 1, 2, 3] and list(hide_files(lake).values()) == [({1, 2}, {two.id})]
    lake.warden.erasure.withdraw(two.id).apply()
    assert seen(lake) == [0, 1, 2, 3, 4, 5] and hide_files(lake) == {}


def test_which_requests_a_hide_file_serves_is_read_once(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests have rows in the same file: once for each of them grew with their square."""
    with_people(lake, rows=12)
    for number in range(12):
        lake.warden.erasure.request("crm.people", key="id", value=[str(number), "3"])
    lake.warden.erasure.hide("crm.people").apply()
    read: list[str] = []

    def noted(path: str, opened: Callable[[str], Any]) -> frozenset[str]:
        read.append(path)
        return served_requests(path, opened)

    monkeypatch.setattr(visible_rows, "served_requests", noted)
    assert lake.warden.erasure.hide("crm.people").is_empty
    assert len(set(read)) == len(read) == 2


def test_rows_are_counted_by_request_in_one_pass(lake: SmallLake) -> None:
    """Once through all files for each request grew with their square."""
    table = with_people(lake).catalog.load_table("crm.people")
    file = lake.warden.ground.files.of(table, table.current_snapshot()).bare[0]

    def taken(number: int) -> int:
        both = [{f"er-{n:04}": frozenset({1, 2}), f"er-{n + 1:04}": frozenset({2})} for n in range(number)]
        shown = visible_rows.Shown(tuple(visible_rows.ShownIn(file, positions) for positions in both))
        found = shown.by_request()
        assert list(found) == list(shown.requests)
        assert [found["er-0000"], found["er-0001"], found[f"er-{number:04}"]] == [2, 3, 1]
        return steps(shown.by_request)

    assert taken(400) / taken(100) < 6


def test_whose_a_partition_is_is_made_ready_once(lake: SmallLake) -> None:
    """Files that lack the key's column: for each of them, all values of all requests used to be sorted anew."""
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", SCHEMA)
    with table.update_spec() as spec:
        spec.add_field("email", IdentityTransform(), "email")
    table.append(pa.Table.from_pylist([person(4), person(4)], schema=SCHEMA))
    (file,) = lake.warden.ground.files.of(table, table.current_snapshot()).by_path.values()
    written = Path(file.path.removeprefix("file://"))
    pq.write_table(pq.read_table(written, partitioning=None).drop_columns(["email"]), written)
    storage, field = lake.warden.ground.storage("main"), table.schema().find_field("email").field_id

    def taken(number: int) -> int:
        values = [[f"p{n}@example.org", f"q{n}@example.org", "everybody@example.org"] for n in range(number)]
        values[7].append("p4@example.org")
        owners = Owners({f"er-{n}": [HiddenKey(field, "string", some)] for n, some in enumerate(values)})

        def look() -> None:
            for _ in range(number):
                found = owners.positions(table.metadata, storage, file)
                assert found == {"er-4": {0, 1}, "er-7": {0, 1}}

        return steps(look)

    taken(10)
    assert taken(160) / taken(40) < 6


def test_files_are_held_for_a_request_that_only_another_control_database_knows(lake: SmallLake, tmp_path: Path) -> None:
    with_people(lake, rows=4)
    lake.warden.erasure.request("crm.people", key="id", value=["1"])
    lake.warden.erasure.hide("crm.people").apply()
    table = lake.catalog.load_table("crm.people")
    files = lake.warden.ground.files.of(table, table.current_snapshot())
    held = held_files(lake.warden.ground, table, files)
    with SmallLake(tmp_path / "other") as other:
        assert len(held) == 1 and held_files(other.warden.ground, table, files) == held


def test_only_some_requests(lake: SmallLake) -> None:
    with_people(with_people(lake), "web.people")
    one = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    lake.warden.erasure.request("crm.people", key="id", value=["2"])
    lake.warden.erasure.hide(request=[one.id]).apply()
    assert seen(lake) == [0, 2, 3, 4, 5]
    assert lake.warden.erasure.hide("web.people", request=[one.id]).is_empty
    with pytest.raises(NotFound):
        lake.warden.erasure.hide(request=["er-1"])
    lake.warden.erasure.withdraw(one.id).apply()
    with pytest.raises(Conflict, match="is already withdrawn"):
        lake.warden.erasure.hide(request=[one.id])
    with pytest.raises(BadValue, match="no tables were selected"):
        lake.warden.erasure.hide()


def test_requests_in_their_grace_are_hidden_too(lake: SmallLake) -> None:
    with_people(lake)
    configured(lake, tables={"crm.*": {"erasure": {"keys": ["email"], "grace": "7d"}}})
    asked = lake.warden.erasure.request("crm.people", value=["p1@example.org"])
    assert lake.warden.erasure.show(asked.id).state == "waiting"
    lake.warden.erasure.hide("crm.people").apply()
    assert seen(lake) == [0, 2, 3, 4, 5]


def test_rows_that_come_later_are_hidden_by_the_next(lake: SmallLake) -> None:
    with_people(lake)
    lake.warden.erasure.request("crm.people", key="id", value=["1", "8"])
    lake.warden.erasure.hide("crm.people").apply()
    append(lake, 7, 8)
    assert seen(lake) == [0, 2, 3, 4, 5, 7, 8]
    planned = lake.warden.erasure.hide("crm.people")
    assert planned.plan.actions[0].estimate.rows == 1
    planned.apply()
    assert seen(lake) == [0, 2, 3, 4, 5, 7]


def test_of_many_tables_one_that_cannot_be_done_does_not_stop_the_others(lake: SmallLake) -> None:
    with_people(lake)
    lake.create("sales.orders", format=1)
    head = lake.head()
    lake.warden.erasure.request("crm.people", key="id", value=["1"])
    lake.warden.erasure.request("sales.orders", key="id", value=["1"])
    with pytest.raises(Conflict, match="format v1, which has no delete files") as caught:
        lake.warden.erasure.hide("sales.orders")
    assert "purge" in caught.value.hint and "upgrade" in caught.value.hint
    with pytest.raises(SomeFailed, match="format v1"):
        lake.warden.erasure.hide(all=True).apply()
    assert seen(lake) == [0, 2, 3, 4, 5]
    assert lake.head() == head


def test_a_table_that_was_upgraded_after_schema_and_spec_changed(lake: SmallLake) -> None:
    lake.catalog.create_namespace("db")
    schema = pa.schema([("n", pa.int32()), ("who", pa.string())])
    table = lake.catalog.create_table("db.t", schema, properties={"format-version": "1"})
    table.append(pa.table({"n": [1, 2, 3], "who": ["a", "b", None]}, schema=schema))
    with table.transaction() as change:
        change.upgrade_table_version(2)
    with table.update_spec() as spec:
        spec.add_field("who", IdentityTransform(), "who_is_it")
    with table.update_schema() as columns:
        columns.rename_column("who", "name").add_column("more", table.schema().find_type("n"))
    later = pa.schema([("n", pa.int32()), ("name", pa.string()), ("more", pa.int32())])
    table.append(pa.table({"n": [4, 5, 6], "name": ["a", "b", None], "more": [1, 2, 3]}, schema=later))
    lake.warden.erasure.request("db.t", key="name", value=["a", "nobody"])
    planned = lake.warden.erasure.hide("db.t")
    assert (planned.plan.actions[0].estimate.rows, planned.plan.actions[0].estimate.files) == (2, 2)
    planned.apply()
    found = lake.catalog.load_table("db.t").scan().to_arrow()
    assert sorted(found["n"].to_pylist()) == [2, 3, 5, 6]


class TestNoValueIsTold:
    def test_where_paths_hold_it(self, lake: SmallLake) -> None:
        """A table that is partitioned by its key has the value in the paths of its files."""
        value = "p4@example.org"
        lake.catalog.create_namespace("crm")
        table = lake.catalog.create_table("crm.people", SCHEMA)
        with table.update_spec() as spec:
            spec.add_field("email", IdentityTransform(), "email")
        table.append(pa.Table.from_pylist([person(n) for n in range(6)], schema=SCHEMA))
        lake.warden.erasure.request("crm.people", key="email", value=[value])
        told = lake.run("erasure", "hide", "crm.people", "--json", "--files").stdout
        told += lake.run("erasure", "hide", "crm.people", "--apply", "--json").stdout
        told += lake.run("operation", "list", "--json").stdout
        for row in json.loads(lake.run("operation", "list", "--json").stdout):
            told += lake.run("operation", "show", row["id"], "--json").stdout
        told += repr(lake.warden.ground.state.erasure.evidence())
        assert seen(lake) == [0, 1, 2, 3, 5]
        assert "hide 1 row" in told
        assert "p4" not in told

    def test_where_a_file_cannot_be_read(self, lake: SmallLake) -> None:
        lake.catalog.create_namespace("crm")
        table = lake.catalog.create_table("crm.people", SCHEMA)
        with table.update_spec() as spec:
            spec.add_field("email", IdentityTransform(), "email")
        table.append(pa.Table.from_pylist([person(4)], schema=SCHEMA))
        lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
        (path,) = [task.file.file_path for task in table.scan().plan_files()]
        Path(path.removeprefix("file://")).write_bytes(b"p4@example.org is not Parquet")
        done = lake.run("erasure", "hide", "crm.people", check=1)
        assert "cannot be read" in done.stderr and "email=*" in done.stderr
        assert "p4" not in done.stdout + done.stderr


class TestOthersMeanwhile:
    @pytest.mark.parametrize("point", ["hide.written", "commit.ready"])
    def test_an_append_is_kept_and_the_rows_that_it_brings_are_hidden_by_the_next(
        self, lake: SmallLake, point: str
    ) -> None:
        with_people(lake)
        lake.warden.erasure.request("crm.people", key="id", value=["1"])
        when(point, lambda: append(lake, 7, 8))
        lake.warden.erasure.hide("crm.people").apply()
        assert seen(lake) == [0, 2, 3, 4, 5, 7, 8]

    @pytest.mark.parametrize("point", ["hide.written", "commit.ready"])
    def test_a_file_that_is_written_anew_is_looked_at_again(self, lake: SmallLake, point: str) -> None:
        with_people(lake)
        lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
        passed = when(point, lambda: lake.catalog.load_table("crm.people").delete("id = 0"))
        lake.warden.erasure.hide("crm.people").apply()
        assert seen(lake) == [2, 3, 5]
        assert len(passed) == 2
        folder = Path(lake.catalog.load_table("crm.people").metadata.location.removeprefix("file://"))
        assert len([path for path in folder.rglob("*.parquet") if is_hide(str(path))]) == 2

    def test_a_request_that_is_withdrawn_before_it_is_applied(self, lake: SmallLake) -> None:
        with_people(lake)
        one = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        lake.warden.erasure.request("crm.people", key="id", value=["2"])
        planned = lake.warden.erasure.hide("crm.people")
        lake.warden.erasure.withdraw(one.id).apply()
        planned.apply()
        assert seen(lake) == [0, 1, 3, 4, 5]

    def test_a_request_that_is_withdrawn_while_it_is_applied(self, lake: SmallLake) -> None:
        with_people(lake)
        one = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        lake.warden.erasure.request("crm.people", key="id", value=["2"])
        store = lake.warden.ground.state.erasure
        now = lake.warden.ground.clock()
        when("commit.landed", lambda: store.move(one.id, ErasureState.WITHDRAWN, now))
        lake.warden.erasure.hide("crm.people").apply()
        assert seen(lake) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("point", ["hide.written", "commit.landed", *in_soak("commit.ready", "action.applied")])
def test_killed_anywhere_it_is_finished_by_a_resume(lake: SmallLake, point: str) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
    killing.kill(lake, point, point, "erasure", "hide", "crm.people", "--apply")
    killing.bury(lake)
    killing.run(lake, "operation", "resume")
    assert seen(lake) == [0, 2, 3, 5]
    table = lake.catalog.load_table("crm.people")
    assert len(lake.warden.ground.files.of(table, table.current_snapshot()).deletes) == 2
    folder = Path(table.metadata.location.removeprefix("file://"))
    assert len([path for path in folder.rglob("*.parquet") if is_hide(str(path))]) == 2  # none is left behind
    (told,) = lake.warden.ground.state.erasure.evidence([EvidenceKind.HIDDEN], request=asked.id)
    assert told.document["rows"] == {asked.id: 2}
    lake.warden.erasure.withdraw(asked.id).apply()
    assert seen(lake) == [0, 1, 2, 3, 4, 5]


def test_it_plans_unless_told_to_apply_and_needs_no_java(lake: SmallLake) -> None:
    with_people(lake)
    lake.warden.erasure.request("crm.people", key="id", value=["1"])
    shown = lake.run("erasure", "hide", "crm.people").stdout
    assert "hide 1 row of 1 request on branch main" in shown and "Nothing changed" in shown
    assert seen(lake) == [0, 1, 2, 3, 4, 5]
    assert lake.run("erasure", "hide", "--all", "--check", check=3).stdout
    lake.run("erasure", "hide", "--all", "--apply")
    assert seen(lake) == [0, 2, 3, 4, 5]
    lake.run("erasure", "hide", "--all", "--check")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """A lake for the tests on Spark."""
    with SmallLake(tmp_path_factory.mktemp("hide") / "lake") as lake:
        lake.warden.ground.spark.sql("CREATE NAMESPACE IF NOT EXISTS main.db")
        yield lake


@pytest.mark.spark
class TestOnSpark:
    def made(self, lake: SmallLake, name: str, format: int, **properties: str) -> Compactable:
        """Ids 0 to 9 in two files."""
        table = Compactable(lake, name)
        told = {"format-version": str(format), **properties}
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in told.items())
        columns = "id BIGINT, user STRUCT<email: STRING>, code INT"
        table.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg PARTITIONED BY (code) TBLPROPERTIES ({pairs})")
        for first in (0, 5):
            row = "id, named_struct('email', concat('p', id, '@example.org')), 0"
            table.sql(f"INSERT INTO {{t}} SELECT {row} FROM range({first}, {first + 5}, 1, 1)")
        return table

    def ids(self, table: Compactable, branch: str = "main") -> list[int]:
        return sorted(row.id for row in table.sql(f"SELECT id FROM {{t}} VERSION AS OF '{branch}'"))

    @pytest.mark.parametrize("granularity", ["file", *in_soak("partition")])
    def test_what_spark_deletes_meanwhile_stays_deleted_and_the_rest_comes_back(
        self, shared: SmallLake, granularity: str
    ) -> None:
        """Spark merges the deletes of one data file with its own: what ours named comes back from the merged file."""
        mode = {"write.delete.mode": "merge-on-read", "write.delete.granularity": granularity}
        table = self.made(shared, f"db.by_{granularity}", 2, **mode)
        name = f"db.by_{granularity}"
        asked = shared.warden.erasure.request(name, key="user.email", value=["p1@example.org"])
        shared.warden.erasure.hide(name).apply()
        assert self.ids(table) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
        table.sql("DELETE FROM {t} WHERE id = 2")
        table.sql("DELETE FROM {t} WHERE id IN (3, 7)")
        table.sql("INSERT INTO {t} VALUES (10, named_struct('email', 'x'), 0)")
        assert self.ids(table) == [0, 4, 5, 6, 8, 9, 10]
        planned = shared.warden.erasure.withdraw(asked.id)
        assert planned.plan.warnings == ()
        planned.apply()
        assert self.ids(table) == [0, 1, 4, 5, 6, 8, 9, 10]
        assert seen(shared, name=name) == [0, 1, 4, 5, 6, 8, 9, 10]

    def test_deletes_that_were_put_together_with_others_come_back_too(self, shared: SmallLake) -> None:
        table = self.made(shared, "db.together", 2, **{"write.delete.mode": "merge-on-read"})
        asked = shared.warden.erasure.request("db.together", key="id", value=["1"])
        shared.warden.erasure.hide("db.together").apply()
        table.sql("DELETE FROM {t} WHERE id = 2")
        table.sql(
            "CALL main.system.rewrite_position_delete_files(table => 'db.together', options => map("
            "'rewrite-all', 'true'))"
        )
        planned = shared.warden.erasure.withdraw(asked.id)
        assert planned.plan.warnings == ()
        planned.apply()
        assert self.ids(table) == [0, 1, 3, 4, 5, 6, 7, 8, 9]

    def test_rows_that_equality_deletes_took_stay_away(self, shared: SmallLake) -> None:
        table = self.made(shared, "db.equal", 2)
        table.delete_by_equality([2, 7])
        asked = shared.warden.erasure.request("db.equal", key="id", value=["1", "2"])
        shared.warden.erasure.hide("db.equal").apply()
        assert self.ids(table) == [0, 3, 4, 5, 6, 8, 9]
        assert shared.warden.erasure.hide("db.equal").is_empty
        shared.warden.erasure.withdraw(asked.id).apply()
        assert self.ids(table) == [0, 1, 3, 4, 5, 6, 8, 9]

    @pytest.mark.parametrize("mode", ["merge-on-read", *in_soak("copy-on-write")])
    def test_format_v3_is_for_good_and_so_only_after_the_grace(self, shared: SmallLake, mode: str) -> None:
        name = f"db.v3_{mode.replace('-', '_')}"
        table = self.made(shared, name, 3, **{"write.delete.mode": mode})
        table.sql("ALTER TABLE {t} CREATE BRANCH dev")
        table.sql("ALTER TABLE {t} CREATE TAG v1")
        before = table.table.current_snapshot().snapshot_id
        configured(shared, tables={"db.*": {"erasure": {"grace": "7d"}}})
        asked = shared.warden.erasure.request(name, key="user.email", value=["p1@example.org", "p8@example.org"])
        waiting = shared.warden.erasure.hide(name)
        assert waiting.is_empty and "could not bring them back" in waiting.plan.warnings[0]
        planned = shared.warden.erasure.hide(name, now=True)
        assert [(action.arguments["branch"], action.route) for action in planned.plan.actions] == [
            ("main", "spark-sql"),
            ("dev", "spark-sql"),
        ]
        assert mode in planned.plan.actions[0].because and "permanently" in planned.plan.actions[0].says
        assert planned.apply().result["rows_hidden"] == 4
        left = [0, 2, 3, 4, 5, 6, 7, 9]
        assert self.ids(table) == self.ids(table, "dev") == left
        assert self.ids(table, "v1") == [*range(10)]
        assert shared.warden.erasure.hide(name, now=True).is_empty
        table.sql("DELETE FROM {t} WHERE id = 2")  # positions that are masked already are not asked for again
        assert shared.warden.erasure.hide(name, now=True).is_empty
        withdrawn = shared.warden.erasure.withdraw(asked.id)
        notes = [note for note in withdrawn.plan.warnings if "2 rows on branch" in note]
        assert len(notes) == 2 and all(f"snapshot {before} still has them" in note for note in notes)
        withdrawn.apply()
        assert self.ids(table) == [0, 3, 4, 5, 6, 7, 9]
