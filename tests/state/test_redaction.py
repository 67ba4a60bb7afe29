"""What the journal tells of people who were erased is told otherwise, and everything else of it stays."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote_plus

import pytest
from sqlalchemy import text

from lakewarden.features.erasure.proofs.journal_paths import redactor
from lakewarden.lifecycle.action import Action, Finding
from lakewarden.lifecycle.journal import Progress, Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.states import State
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.tombstones import SqlTombstones

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
PEOPLE, OTHERS = "main.crm.people", "main.crm.others"
UUIDS = {PEOPLE: "0b0c5c3e-7d5e-4c8c-9d53-5f6a3f0a7f01", OTHERS: "6b1f7c1a-1d0e-4a55-8a3b-0f5c1c2d3e02"}
TOLD = redactor({"email": frozenset({"a+b@x.org", "é@x.org"})})


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
    for table, uuid in UUIDS.items():
        SqlTombstones(told).redact(table, uuid, ["email="], TOLD)
    assert "a%2Bb" not in everything(told) and "%C3%A9" not in everything(told)
    record = SqlJournal(told).get("op-1")
    assert record.error and record.error["message"] == f"{path('*')} is gone"
    assert record.findings[0].message == path("*") and record.steps[0].says == f"compact {path('*')}"
    assert paths_of(told, "op-1") == sorted([path("*"), path("*"), path("c%40x.org")])


@pytest.mark.parametrize(
    ("table", "uuid"), [("main.crm.persons", UUIDS[PEOPLE]), (PEOPLE, "another-table-of-that-name")]
)
def test_a_table_is_known_under_the_name_that_it_had_and_by_its_name_alone(
    told: Database, table: str, uuid: str
) -> None:
    SqlTombstones(told).redact(table, uuid, ["email="], TOLD)
    assert paths_of(told, "op-1") == sorted([path("*"), path("*"), path("c%40x.org")])
    assert paths_of(told, "op-2") == [path("a%2Bb%40x.org")]


def test_lists_of_other_tables_are_not_looked_at(told: Database) -> None:
    SqlTombstones(told).redact(PEOPLE, UUIDS[PEOPLE], ["email="], TOLD)
    assert paths_of(told, "op-2") == [path("a%2Bb%40x.org")]


def test_a_second_time_changes_nothing(told: Database) -> None:
    store = SqlTombstones(told)
    store.redact(PEOPLE, UUIDS[PEOPLE], ["email="], TOLD)
    before = everything(told)
    store.redact(PEOPLE, UUIDS[PEOPLE], ["email="], TOLD)
    assert everything(told) == before


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
    SqlTombstones(database).redact(PEOPLE, UUIDS[PEOPLE], ["email="], redactor({"email": frozenset({value})}))
    record = journal.get("op-1")
    assert [record.findings[0].message, record.steps[0].says] == [f"{path('*')} is not there", f"compact {path('*')}"]
    assert record.plan.actions[0].says == f"compact {path('*')}" and paths_of(database, "op-1") == [path("*")]


def hive(found: re.Match[str]) -> str:
    """How Hive writes a character that it does not leave as it is."""
    return f"%{ord(found[0]):02X}"


def test_a_veil_is_over_these_values_alone() -> None:
    redact: Callable[[str], str] = TOLD
    assert redact(f'{{"path": "{path("a%2Bb%40x.org")}"}}') == f'{{"path": "{path("*")}"}}'
    assert redact(path("a%2bb@x.org")) == path("*")  # however it is encoded
    assert redact(path("aa%40x.org")) == path("aa%40x.org")
    assert redact("mail=a%2Bb%40x.org/x") == "mail=a%2Bb%40x.org/x"
