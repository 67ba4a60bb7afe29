"""Long lists of files: their digest is the plan's, the files themselves are kept beside it and loaded when needed."""

from __future__ import annotations

import hashlib
import json
import random
import tracemalloc
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile, pack_files, unpack_files
from lakewarden.lifecycle.states import State
from lakewarden.state.journal import SqlJournal
from tests.cases import in_soak
from tests.lifecycle.house import House, Mark

files = st.builds(
    PlannedFile,
    path=st.text(max_size=20),
    bytes=st.integers(0, 2**50),
    kind=st.sampled_from(["data", "position-deletes", "manifest"]),
    group=st.integers(0, 3),
)


def a_plan(*listed: PlannedFile) -> Plan:
    return Plan("some.kind", "t", (Action("delete", "t", "t", "delete files", {}, files=FileList.of(listed)),))


class TestTheList:
    @given(st.lists(files, max_size=20), st.randoms())
    def test_counts_and_is_the_same_in_any_order(self, listed: list[PlannedFile], chance: random.Random) -> None:
        found = FileList.of(listed)
        assert (found.count, found.bytes) == (len(listed), sum(file.bytes for file in listed))
        shuffled = chance.sample(listed, len(listed))
        assert FileList.of(shuffled).items == found.items
        assert FileList.of(iter(shuffled)) == found

    @given(st.lists(files, min_size=1, max_size=20))
    def test_comes_back_as_it_was_packed(self, listed: list[PlannedFile]) -> None:
        found = FileList.of(listed)
        again = unpack_files(pack_files(found))
        assert again == found
        assert again.items == found.items

    @pytest.mark.parametrize("count", [0, 1, 1000, 2001])
    def test_is_packed_as_one_document_however_many_there_are(self, count: int) -> None:
        """Lists that an earlier release stored have the digest of the whole document."""
        found = FileList.of(PlannedFile(f"s3://b/ü{number:04}", number, "data", number % 3) for number in range(count))
        items = found.items
        columns = {name: [getattr(file, name) for file in items] for name in ("path", "bytes", "kind", "group")}
        document = json.dumps(columns, separators=(",", ":")).encode()
        assert zlib.decompress(pack_files(found)) == document
        assert found.digest == (hashlib.sha256(document).hexdigest()[:32] if count else "")

    @pytest.mark.parametrize(
        "other",
        [
            PlannedFile("s3://b/x.parquet", 10, "data", 1),
            PlannedFile("s3://b/x.parquet", 10, "manifest"),
            PlannedFile("s3://b/x.parquet", 11, "data"),
            PlannedFile("s3://b/y.parquet", 10, "data"),
        ],
    )
    def test_any_difference_makes_another_digest_action_and_plan(self, other: PlannedFile) -> None:
        one, changed = a_plan(PlannedFile("s3://b/x.parquet", 10, "data")), a_plan(other)
        assert one.actions[0].files.digest != changed.actions[0].files.digest
        assert one.actions[0].id != changed.actions[0].id
        assert one.id != changed.id

    def test_where_one_path_ends_and_the_next_begins_counts(self) -> None:
        together = [PlannedFile('a","b', 0, "data"), PlannedFile("c", 0, "data")]
        apart = [PlannedFile("a", 0, "data"), PlannedFile('b","c', 0, "data")]
        assert FileList.of(together) != FileList.of(apart)

    def test_no_files_is_nothing_to_speak_of(self) -> None:
        assert FileList.of([]) == FileList()
        assert a_plan().id == Plan("some.kind", "t", (Action("delete", "t", "t", "delete files", {}),)).id


class TestThePlan:
    plan = a_plan(PlannedFile("s3://b/secret-path.parquet", 10, "data"), PlannedFile("s3://b/z.avro", 5, "manifest"))

    def test_its_json_holds_the_digest_and_no_file(self) -> None:
        text = self.plan.to_json()
        assert "secret-path" not in text
        again = Plan.from_json(text)
        assert again == self.plan
        assert (again.id, again.actions[0].files.items) == (self.plan.id, ())

    def test_its_document_counts_files_and_lists_them_when_asked(self) -> None:
        counted = self.plan.document()["actions"][0]["files"]
        assert counted == {"count": 2, "bytes": 15, "digest": self.plan.actions[0].files.digest}
        listed = json.loads(json.dumps(self.plan.document(files=True)))["actions"][0]["files"]
        assert listed == counted | {
            "items": [
                {"path": "s3://b/secret-path.parquet", "bytes": 10, "kind": "data", "group": 0},
                {"path": "s3://b/z.avro", "bytes": 5, "kind": "manifest", "group": 0},
            ]
        }
        assert Plan("k", "t", (Action("tag", "t", "t", "tag", {}),)).document(files=True)["actions"][0]["files"] == {
            "count": 0,
            "bytes": 0,
            "digest": "",
            "items": [],
        }

    def test_other_files_than_the_planned_are_refused(self) -> None:
        stored = self.plan.without_files()
        assert stored.actions[0].files.items == ()
        kept = {self.plan.actions[0].id: self.plan.actions[0].files}
        assert stored.with_files(kept.__getitem__).actions[0].files.items == self.plan.actions[0].files.items
        for wrong in (FileList(), FileList.of([PlannedFile("s3://b/other.parquet", 15, "data")])):
            with pytest.raises(StateUnavailable, match="differ from the planned ones"):
                stored.with_files(dict.fromkeys(kept, wrong).__getitem__)


def test_the_runner_hands_each_action_its_files(any_house: House) -> None:
    id = any_house.store("t", "u", files=4)
    assert all(action.files.items == () for action in any_house.journal.get(id).plan.actions)

    any_house.runner.run(id)

    assert {what for what, _ in Mark.seen} == {"holds", "apply", "verify"}
    for _, action in Mark.seen:
        ref = action.arguments["ref"]
        assert [file.path for file in action.files.items] == [f"{action.subject}/{ref}/{n}" for n in range(4)]


def test_files_are_written_down_with_the_operation_also_when_it_acts_at_once(any_house: House) -> None:
    any_house.start("t", files=2)
    first = any_house.journal.get("op-0").plan.actions[0]
    assert [file.path for file in any_house.journal.files("op-0", first.id).items] == ["t/a/0", "t/a/1"]


@pytest.mark.parametrize("any_house", ["sqlite"], indirect=True)
def test_a_list_that_was_damaged_stops_its_table_before_anything_is_done(any_house: House) -> None:
    id = any_house.store("t", "u", files=2)
    damaged = any_house.journal.get(id).plan.actions[0].id
    columns = {"path": ["somebody/elses", "t/a/1"], "bytes": [0, 1], "kind": ["data"] * 2, "group": [0, 0]}
    for content in (zlib.compress(json.dumps(columns).encode()), b"nonsense", zlib.compress(b"[]")):
        assert isinstance(any_house.journal, SqlJournal)
        with any_house.journal._database.begin() as connection:
            connection.exec_driver_sql("UPDATE action_files SET packed = ? WHERE action = ?", (content, damaged))
        with pytest.raises(Exception, match="1 of 2 failed.*differ from the planned ones"):
            any_house.runner.run(id)
        assert set(any_house.lake.tables.refs) == {("u", "a"), ("u", "b")}
    assert any_house.journal.get(id).state is State.FAILED


@pytest.mark.parametrize("any_house", ["sqlite", *in_soak("memory", "postgres")], indirect=True)
def test_a_plan_of_very_many_files_is_loaded_table_by_table(any_house: House) -> None:
    """What is held at once is about one table's files, not all of them."""
    tables = [f"t{number}" for number in range(10)]
    id = any_house.store(*tables, files=2_000)
    record = any_house.journal.get(id)

    def load(action: str) -> FileList:
        packed = any_house.journal.files(id, action)
        return replace(packed, items=tuple(replace(file) for file in packed.items))  # as if from a database

    tracemalloc.start()
    everything = record.plan.with_files(load)
    _, all_at_once = tracemalloc.get_traced_memory()
    del everything
    tracemalloc.reset_peak()
    for table in tables:
        assert (
            sum(len(action.files.items) for action in record.plan.for_subject(table).with_files(load).actions) == 4_000
        )
    _, one_by_one = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert one_by_one < all_at_once / 3


@pytest.mark.parametrize("any_house", ["sqlite"], indirect=True)
def test_an_action_that_an_erased_value_changed_since_is_stale(any_house: House) -> None:
    """Its id is another one then; nothing was lost or damaged."""
    id = any_house.store("t", "u", files=2)
    record = any_house.journal.get(id)
    assert isinstance(any_house.journal, SqlJournal)
    database, of_u = any_house.journal._database, [action.id for action in record.plan.for_subject("u").actions]

    def erase(*_: object) -> None:
        with database.begin() as connection:
            for table in ("steps", "action_files"):
                for action in of_u:
                    connection.exec_driver_sql(f"UPDATE {table} SET action = 'x' || action WHERE action = ?", (action,))

    Mark.hooks.append(erase)
    with pytest.raises(Exception, match="1 of 2 failed.*the plan is stale: a value that it names was erased"):
        any_house.runner.run(id)
    assert [str(step.progress) for step in any_house.journal.get(id).steps if step.subject == "t"] == ["verified"] * 2
