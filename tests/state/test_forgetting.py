"""What the journal tells of people who were erased is told otherwise, and everything else of it stays."""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import pytest
from sqlalchemy import LargeBinary, Text, text

from lakewarden.erased_values import ERASED, ErasedValues
from lakewarden.errors import TracesLeft
from lakewarden.lifecycle.action import Action, Finding
from lakewarden.lifecycle.journal import Progress, Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.states import State
from lakewarden.records.erasure import ErasureRequest, KeyAsked
from lakewarden.state.database import Database
from lakewarden.state.forgetting import forget
from lakewarden.state.journal import SqlJournal
from lakewarden.state.tables import JsonText, metadata
from lakewarden.state.tombstones import SqlTombstones

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
PEOPLE, OTHERS = "main.crm.people", "main.crm.others"
UUIDS = {PEOPLE: "0b0c5c3e-7d5e-4c8c-9d53-5f6a3f0a7f01", OTHERS: "6b1f7c1a-1d0e-4a55-8a3b-0f5c1c2d3e02"}
VALUES = {"a+b@x.org", "é@x.org"}


def values(*texts: str, kind: str = "string", path: str = "email") -> ErasedValues:
    return ErasedValues.of([(kind, texts)], {path: frozenset(texts)}, [PEOPLE])


def forgotten(database: Database, given: ErasedValues) -> int:
    with database.begin() as connection:
        return forget(connection, given)


def path(value: str) -> str:
    return f"s3://lake/people/data/email={value}/00.parquet"


def operation(id: str, table: str, *paths: str) -> Record:
    files = FileList.of(PlannedFile(each, 5, "data") for each in paths)
    action = Action("compact", table, table, f"compact {paths[0]}", {}, (TableIs(table, UUIDS[table]),), files=files)
    return Record.planned(id, Plan("compaction.compact", table, (action,)), "{}", "somebody", NOW)


@pytest.fixture
def told(database: Database) -> Database:
    with database.begin() as connection:
        connection.execute(text("DELETE FROM operations"))
    journal = SqlJournal(database)
    journal.add(operation("op-1", PEOPLE, path("a%2Bb%40x.org"), path("%C3%A9%40x.org"), path("c%40x.org")))
    journal.add(operation("op-2", OTHERS, path("a%2Bb%40x.org")))
    record = journal.move("op-1", State.RUNNING, NOW)
    error = {"code": "broken-table", "message": f"{path('a%2Bb%40x.org')} is gone", "hint": ""}
    journal.step("op-1", replace(record.steps[0], progress=Progress.FAILED, error=error))
    journal.move("op-1", State.FAILED, NOW, error=error, findings=(Finding(PEOPLE, path("a%2Bb%40x.org")),))
    return database


def test_values_are_gone_from_every_row_and_list(told: Database) -> None:
    assert forgotten(told, values(*VALUES)) == 6  # two operations, their steps and their files
    assert "a%2Bb" not in everything(told) and "%C3%A9" not in everything(told)
    record = SqlJournal(told).get("op-1")
    assert record.error and record.error["message"] == f"{path('*')} is gone"
    assert record.findings[0].message == path("*") and record.steps[0].says == f"compact {path('*')}"
    assert paths_of(told, "op-1") == sorted([path("*"), path("*"), path("c%40x.org")])
    assert paths_of(told, "op-2") == [path("*")]


def test_a_second_time_changes_nothing(told: Database) -> None:
    forgotten(told, values(*VALUES))
    before = everything(told)
    assert forgotten(told, values(*VALUES)) == 0
    assert everything(told) == before


def test_every_text_says_whether_it_may_hold_values() -> None:
    """A new column must not be forgotten here."""
    texts = [
        column
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, Text | JsonText | LargeBinary)
    ]
    assert len(texts) > 50
    assert [str(column) for column in texts if "may_hold_values" not in column.info] == []


def written(lower: str, upper: str, **more: Any) -> Action:
    """A batch of a backfill, as it is planned."""
    arguments: dict[str, Any] = {
        "lower": lower,
        "upper": upper,
        "batch": 5,
        "rows": 5,
        "source": json.dumps({"crm.people": "5"}),
    }
    return Action("write", OTHERS, OTHERS, "write batch 5 of 7 of backfill b: 5 rows", {**arguments, **more})


def planned(database: Database, id: str, *actions: Action, request: str = "{}") -> Record:
    journal = SqlJournal(database)
    journal.add(Record.planned(id, Plan("backfill.run", "b", actions), request, "somebody", NOW))
    return journal.get(id)


def test_checkpoints_and_instances_are_forgotten_and_plans_stay_readable(database: Database) -> None:
    need = TableIs(PEOPLE, UUIDS[PEOPLE])
    journal = SqlJournal(database)
    first = replace(written('["o\'h\u00e4ra-1@x.org"]', '["zz"]'), requires=(need,))
    second = replace(written("[5]", "[15]", instance="5", says="5"), requires=(need,))
    before = planned(database, "op-1", first, second, request=json.dumps({"name": "v", "instance": "5", "limit": 5}))
    error = {"code": "x", "message": 'fails on rows with id = [5] (CAST, 5 rows); "o\'hära-1@x.org" of 5', "hint": ""}
    journal.move("op-1", State.CANCELLED, NOW, error=error, result={"rows": 5, "by": '{"checkpoint":"[5]"}'})
    people = ErasedValues.of([("string", ["o'hära-1@x.org"]), ("long", ["5"])], {}, [PEOPLE])
    assert forgotten(database, people) > 0
    record = journal.get("op-1")
    one, two = record.plan.actions
    assert one.arguments == {**first.arguments, "lower": f'["{ERASED}"]'}
    assert two.arguments["lower"] == f'["{ERASED}"]' and two.arguments["upper"] == "[15]"
    assert two.arguments["instance"] == ERASED and two.number("batch") == 5 and two.number("rows") == 5
    assert one.is_redacted and two.is_redacted and not first.is_redacted
    assert json.loads(record.request) == {"name": "v", "instance": ERASED, "limit": 5}
    assert record.error and f'id = ["{ERASED}"]' in record.error["message"] and "hära" not in record.error["message"]
    assert record.result == {"rows": 5, "by": f'{{"checkpoint":"[\\"{ERASED}\\"]"}}'}
    assert [step.action for step in record.steps] == [one.id, two.id] and before.plan.id != record.plan.id
    assert journal.get(record.plan.id).id == "op-1"  # found by the id that it has now


def test_short_values_of_other_tables_are_left_alone(database: Database) -> None:
    before = planned(database, "op-1", written("[5]", '["anna"]'))
    assert forgotten(database, values("5", "anna")) == 0
    assert SqlJournal(database).get("op-1") == before


def test_what_is_left_is_a_place_with_traces(database: Database) -> None:
    """Words of ours are not replaced: nobody has such a value, unless a noun writes one there."""
    planned(database, "op-1", replace(written('["a+b@x.org"]', "[]"), verb="a+b@x.org"))
    with pytest.raises(TracesLeft, match=r"still has values of the request in operations\.plan") as error:
        forgotten(database, values("a+b@x.org"))
    assert error.value.details["places"] == [{"object": "control database", "where": "operations.plan of op-1"}]
    assert SqlJournal(database).get("op-1").plan.actions[0].arguments["lower"] == '["a+b@x.org"]'  # rolled back


def test_many_values_are_forgotten_in_one_pass(database: Database) -> None:
    for number in range(50):
        planned(database, f"op-{number}", *(written(f'["p{number}-{n}@x.org"]', '["z"]') for n in range(100)))
    began = time.process_time()
    assert forgotten(database, values(*(f"p{n}-{m}@x.org" for n in range(2, 1002) for m in range(100)))) == 48
    assert time.process_time() - began < 15
    assert "p1-1@x.org" in everything(database) and "p2-1@x.org" not in everything(database)


def paths_of(database: Database, id: str) -> list[str]:
    """The files of an operation's only action, loaded as its runner does it."""
    journal = SqlJournal(database)
    (action,) = journal.get(id).plan.with_files(lambda action: journal.files(id, action)).actions
    return sorted(file.path for file in action.files.items)


def everything(database: Database) -> str:
    """All that the journal holds, unpacked."""

    def shown(value: object) -> str:
        return zlib.decompress(bytes(value)).decode() if isinstance(value, bytes | memoryview) else str(value)

    with database.connect() as connection:
        return "\n".join(
            shown(value)
            for table in ("operations", "steps", "action_files")
            for row in connection.execute(text(f"SELECT * FROM {table}"))
            for value in row
        )


@pytest.mark.parametrize("value", ["é@x.org", "o'b+c@x.org", 'Jane "J" Doe', "back\\slash", "100% x"])
@pytest.mark.parametrize("encoded", [str, quote_plus, lambda value: re.sub("[\"'%\\\\]", hive, value)])
def test_values_are_known_however_paths_and_the_journal_spell_them(
    database: Database, value: str, encoded: Callable[[str], str]
) -> None:
    told, journal = path(encoded(value)), SqlJournal(database)
    journal.add(operation("op-1", PEOPLE, told))
    journal.move("op-1", State.CANCELLED, NOW, findings=(Finding(PEOPLE, f"{told} is not there"),))
    forgotten(database, values(value))
    record = journal.get("op-1")
    assert [record.findings[0].message, record.steps[0].says] == [f"{path('*')} is not there", f"compact {path('*')}"]
    assert record.plan.actions[0].says == f"compact {path('*')}" and paths_of(database, "op-1") == [path("*")]


def hive(found: re.Match[str]) -> str:
    """How Hive writes a character that it does not leave as it is."""
    return f"%{ord(found[0]):02X}"


def test_a_running_process_does_not_write_an_erased_value_again(database: Database) -> None:
    journal = SqlJournal(database)
    record = planned(database, "op-1", replace(written("[1]", "[2]"), says="write partitions of a+b@x.org"))
    forgotten(database, values("a+b@x.org"))
    journal.step("op-1", replace(record.steps[0], progress=Progress.DONE))
    step = journal.get("op-1").steps[0]
    assert (step.says, step.progress) == (f"write partitions of {ERASED}", Progress.DONE)


def test_what_a_running_operation_did_is_recorded_though_its_values_were_erased(database: Database) -> None:
    """The ids of its actions change under it: it still knows the earlier ones."""
    journal = SqlJournal(database)
    record = planned(database, "op-1", written('["a+b@x.org"]', "[]"), written("[1]", "[2]"))
    forgotten(database, values("a+b@x.org"))
    for step in record.steps:
        journal.step("op-1", replace(step, progress=Progress.DONE, facts={"rows": 5}))
    journal.verified("op-1", record.steps, NOW)
    after = journal.get("op-1")
    assert [(step.progress, step.facts) for step in after.steps] == [(Progress.VERIFIED, {"rows": 5})] * 2
    assert [step.action for step in after.steps] == [action.id for action in after.plan.actions]


def test_actions_that_only_a_value_told_apart_are_forgotten(database: Database) -> None:
    files = FileList.of([PlannedFile("s3://lake/1", 5, "data")])
    both = [replace(written(f'["{value}"]', "[]"), files=files) for value in sorted(VALUES)]
    planned(database, "op-1", *both)
    assert forgotten(database, values(*VALUES)) > 0
    record = SqlJournal(database).get("op-1")
    assert [step.action for step in record.steps] == [action.id for action in record.plan.actions]


@pytest.mark.parametrize(
    ("value", "kind", "left"),
    [("-1234567", "long", '{"lower": "[-1234567]"}'), ("a@x.org", "string", '{"a@x.org": 3}')],
)
def test_long_values_are_replaced_as_numbers_and_as_names(database: Database, value: str, kind: str, left: str) -> None:
    """A close that finds more than it replaces could never succeed."""
    planned(database, "op-1", written("[1]", "[2]"), request=left)
    assert forgotten(database, values(value, kind=kind)) == 1
    assert value not in everything(database)


@pytest.mark.parametrize("value", ["customers", "production", "20261118"])
def test_words_are_replaced_only_where_they_are_values(database: Database, value: str) -> None:
    """A database and a table may have the same name as a value."""
    about = replace(written("[1]", "[2]"), says=f"write {value}", requires=(TableIs(PEOPLE, UUIDS[PEOPLE]),))
    files = FileList.of([PlannedFile(f"s3://{value}/region={value}/1", 5, "data")])
    other = replace(written("[1]", f'["{value}"]', database=f"main.{value}"), says=f"write {value}", files=files)
    planned(database, "op-1", about)
    before = planned(database, "op-2", other, request=json.dumps({"database": value}))
    assert forgotten(database, ErasedValues.of([("string", [value])], {}, [PEOPLE])) == 3
    after = SqlJournal(database).get("op-2")
    assert after.request == before.request and after.steps[0].says == f"write {value}"
    assert after.plan.actions[0].arguments == {**other.arguments, "upper": f'["{ERASED}"]'}
    assert SqlJournal(database).files("op-2", after.plan.actions[0].id).items == files.items
    assert SqlJournal(database).get("op-1").steps[0].says == f"write {ERASED}"


@pytest.mark.parametrize(("value", "kind"), [("4", "long"), ("anna", "string"), ("2026-11-18", "date")])
def test_files_of_another_table_with_the_same_partition_field_are_left_alone(
    database: Database, value: str, kind: str
) -> None:
    """A plan that lost files would do less than it says."""
    own, other = (f"s3://lake/{name}/data/id={value}/00.parquet" for name in ("people", "others"))
    SqlJournal(database).add(operation("op-1", PEOPLE, own))
    before = operation("op-2", OTHERS, other)
    SqlJournal(database).add(before)
    assert forgotten(database, values(value, kind=kind, path="id")) == 3
    assert paths_of(database, "op-1") == ["s3://lake/people/data/id=*/00.parquet"]
    assert paths_of(database, "op-2") == [other]
    assert SqlJournal(database).get("op-2").plan == before.plan.without_files()


def test_a_value_that_is_the_name_of_a_table_does_not_keep_a_request_open(database: Database) -> None:
    planned(database, "op-1", written('["main.crm.others"]', "[]"))
    assert forgotten(database, ErasedValues.of([("string", ["main.crm.others"])], {}, [PEOPLE])) > 0
    action = SqlJournal(database).get("op-1").plan.actions[0]
    assert (action.subject, action.arguments["lower"]) == (OTHERS, f'["{ERASED}"]')


@pytest.mark.parametrize("person", ["a+b@x.org", "annasmith"])
def test_persons_who_asked_for_themselves_are_forgotten(database: Database, person: str) -> None:
    moment = datetime(2026, 11, 15, tzinfo=UTC)
    keys = (KeyAsked(PEOPLE, "u", "email", 2, "string"),)
    request = ErasureRequest(f"er-{person[1]}", moment, person, f"{person} wrote", "", None, moment, keys, 1)
    SqlTombstones(database).add(request, {0: iter([person])})
    need = TableIs(PEOPLE, UUIDS[PEOPLE])
    plan = Plan("backfill.run", "b", (replace(written("[1]", "[2]"), requires=(need,)),))
    SqlJournal(database).add(Record.planned("op-1", plan, "{}", person, NOW))
    assert forgotten(database, values(person)) == 2
    after = SqlTombstones(database).get(f"er-{person[1]}")
    assert (after.requester, after.reason) == (ERASED, f"{ERASED} wrote")
    assert SqlJournal(database).get("op-1").actor == ERASED


def test_requests_over_many_tables_are_forgotten_together(database: Database) -> None:
    names = [f"main.crm.t{number}" for number in range(1200)]
    need = TableIs("main.crm.t1199", UUIDS[PEOPLE])
    planned(database, "op-1", replace(written("[5]", "[6]"), requires=(need,)))
    assert forgotten(database, ErasedValues.of([("long", ["5"])], {}, names)) == 1
    assert SqlJournal(database).get("op-1").plan.actions[0].arguments["lower"] == f'["{ERASED}"]'
