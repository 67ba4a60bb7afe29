"""What every journal does, whether it is kept in memory, in SQLite or in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakewarden.errors import AlreadyExists, IllegalTransition, OperationNotFound
from lakewarden.lifecycle.action import Action, Finding
from lakewarden.lifecycle.journal import Journal, Progress, Record, is_over
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.states import State, Stop
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.leases import SqlLeases
from tests.state.records import NOON, a_plan, an_operation


def ids(records: list[Record]) -> list[str]:
    return [record.id for record in records]


def test_an_operation_comes_back_as_it_was_added(journal: Journal) -> None:
    record = an_operation("one", a_plan("sales.orders", "eu.sales.orders"))
    journal.add(record)
    found = journal.get("one")
    assert found == record
    assert found.plan.id == record.plan.id
    assert [action.id for action in found.plan.actions] == [step.action for step in found.steps]


def test_a_plan_without_actions_is_an_operation_without_steps(journal: Journal) -> None:
    record = an_operation("empty", Plan("version.tag", "sales.orders"))
    journal.add(record)
    assert journal.get("empty") == record


def test_times_come_back_in_utc_to_the_microsecond(journal: Journal) -> None:
    local = timezone(timedelta(hours=5, minutes=45))
    created = datetime(2026, 10, 25, 2, 30, 0, 1, local)
    journal.add(replace(an_operation("one"), created_at=created))
    moved = journal.move("one", State.RUNNING, datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    found = journal.get("one")
    assert found.created_at == created and found.created_at.microsecond == 1
    assert found.started_at == moved.started_at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert found.started_at is not None and found.started_at.utcoffset() == timedelta()


def test_an_operation_is_found_by_its_plan_and_the_newest_one_wins(journal: Journal) -> None:
    plan = a_plan("sales.orders")
    journal.add(an_operation("late", plan, minutes=2))
    journal.add(an_operation("early", plan, minutes=1))
    assert journal.get(plan.id).id == "late"
    assert journal.get("early").id == "early"


def test_of_two_operations_of_the_same_moment_the_one_added_later_is_newer(journal: Journal) -> None:
    for id in ("b", "a", "c"):
        journal.add(an_operation(id))
    assert ids(journal.list()) == ["c", "a", "b"]
    assert journal.get(a_plan("sales.orders").id).id == "c"


def test_what_is_not_there_is_said(journal: Journal) -> None:
    for attempt in (
        lambda: journal.get("gone"),
        lambda: journal.move("gone", State.RUNNING, NOON),
        lambda: journal.step("gone", an_operation("x").steps[0]),
        lambda: journal.verified("gone", [], NOON),
        lambda: journal.request_stop("gone", Stop.CANCEL),
        lambda: journal.stop_requested("gone"),
        lambda: journal.files("gone", "any"),
    ):
        with pytest.raises(OperationNotFound, match="no operation or plan gone"):
            attempt()


def test_the_list_is_newest_first_and_filtered(journal: Journal) -> None:
    journal.add(an_operation("tag", a_plan("sales.orders"), minutes=1))
    journal.add(an_operation("both", a_plan("sales.orders", "sales.customers"), minutes=3))
    journal.add(an_operation("expire", a_plan("sales.orders", kind="retention.run"), minutes=2))
    journal.move("both", State.RUNNING, NOON)
    journal.move("expire", State.CANCELLED, NOON)
    assert ids(journal.list()) == ["both", "expire", "tag"]
    assert ids(journal.list(limit=2)) == ["both", "expire"]
    assert ids(journal.list(kind="version.tag")) == ["both", "tag"]
    assert ids(journal.list(subjects=["sales.customers"])) == ["both"]
    assert ids(journal.list(subjects=["sales.order"])) == []
    assert ids(journal.list(subjects=["sales.orders"], limit=1)) == ["both"]
    assert ids(journal.list(states=[State.PLANNED, State.CANCELLED])) == ["expire", "tag"]
    assert ids(journal.list(states=[State.PLANNED], kind="retention.run")) == []
    assert journal.list(limit=10**9) == [journal.get(id) for id in ("both", "expire", "tag")]


def test_the_last_operation_with_an_argument_is_found_beyond_any_number_of_others(journal: Journal) -> None:
    def begin(id: str, backfill: str, kind: str = "backfill.run") -> None:
        actions = (Action("write", "a.b", "a.b", "write", {"backfill": backfill}),)
        journal.add(an_operation(id, Plan(kind, "all", actions)))

    for number, backfill in enumerate(("shop_003", "shop_003", *["shopx003"] * 201)):
        begin(f"op-{number}", backfill)
        journal.move(f"op-{number}", State.RUNNING, NOON)
    begin("planned", "shop_003")
    kinds = ("backfill.run", "migration.apply")
    found = journal.last_begun(kinds, "backfill", "shop_003")
    assert found is not None and found.id == "op-1"
    assert journal.last_begun(kinds[1:], "backfill", "shop_003") is None


def test_planned_finds_only_what_was_not_applied(journal: Journal) -> None:
    plan = a_plan("sales.orders")
    assert journal.planned(plan.id) is None
    journal.add(an_operation("one", plan))
    found = journal.planned(plan.id)
    assert found is not None and found.id == "one"
    journal.move("one", State.RUNNING, NOON)
    assert journal.planned(plan.id) is None


def test_a_whole_life(journal: Journal) -> None:
    journal.add(an_operation("one"))
    running = journal.move("one", State.RUNNING, NOON + timedelta(seconds=1))
    assert (running.started_at, running.finished_at) == (NOON + timedelta(seconds=1), None)
    error = {"code": "failed", "message": "it’s\nbroken", "hint": "", "failures": [{"table": "a", "count": 3}]}
    findings = (Finding("sales.orders", "a row too many"), Finding("sales.orders", "„quoted“"))
    failed = journal.move("one", State.FAILED, NOON + timedelta(seconds=2), error=error, findings=findings)
    assert failed == journal.get("one")
    assert (failed.error, failed.findings, failed.finished_at) == (error, findings, NOON + timedelta(seconds=2))
    again = journal.move("one", State.RUNNING, NOON + timedelta(seconds=3))
    assert again == journal.get("one")
    assert (again.error, again.findings, again.finished_at, again.started_at) == (None, (), None, running.started_at)
    journal.move("one", State.VERIFYING, NOON + timedelta(seconds=4))
    done = journal.move("one", State.DONE, NOON + timedelta(seconds=5), result={"rows": 7, "share": 0.25, "ok": True})
    assert done == journal.get("one")
    assert done.result == {"rows": 7, "share": 0.25, "ok": True}


def test_whether_anybody_is_running_it(rows: Callable[[str], Database]) -> None:
    """A killed operation stays running in the journal, but no longer holds its lease."""
    database = rows("sqlite")
    journal, leases = SqlJournal(database), SqlLeases(database)
    journal.add(an_operation("one"))
    at_rest = is_over(journal)
    assert at_rest("one") and not at_rest("op-of-somebody-else")
    lease = leases.acquire("operation:one", "operation one", "one", "host:1", timedelta(minutes=1))
    seen = []
    for state in (State.RUNNING, State.VERIFYING, State.PAUSED, State.RUNNING):
        journal.move("one", state, NOON)
        seen.append(at_rest("one"))
    assert seen == [False, False, True, False]
    leases.release(lease)
    assert at_rest("one")
    journal.move("one", State.FAILED, NOON)
    assert at_rest("one")


def test_a_refused_move_changes_nothing(journal: Journal) -> None:
    journal.add(an_operation("one"))
    before = journal.get("one")
    with pytest.raises(IllegalTransition, match="one is planned and cannot become done"):
        journal.move("one", State.DONE, NOON, result={"rows": 1})
    assert journal.get("one") == before


def test_steps_are_written_one_by_one(journal: Journal) -> None:
    journal.add(an_operation("one", a_plan("a.b", "c.d")))
    journal.add(an_operation("other", a_plan("a.b", "c.d")))
    first, second, third, fourth = journal.get("one").steps
    done = replace(second, progress=Progress.DONE, facts={"rows": 3, "path": "s3://x/ü"}, at=NOON)
    failed = replace(fourth, progress=Progress.FAILED, error={"code": "failed", "message": "no"}, at=NOON)
    journal.step("one", done)
    journal.step("one", failed)
    assert journal.get("one").steps == (first, done, third, failed)
    assert journal.get("other").steps == (first, second, third, fourth)
    retried = replace(failed, progress=Progress.DONE, error=None)
    journal.step("one", retried)
    assert journal.get("one").steps == (first, done, third, retried)


def test_files_are_kept_beside_the_plan(journal: Journal) -> None:
    record = an_operation("one", a_plan("a.b", "c.d"))
    journal.add(record)
    journal.add(an_operation("other", a_plan("e.f")))
    stored = journal.get("one").plan
    assert [action.files.count for action in stored.actions] == [3, 0, 3, 0]
    assert all(action.files.items == () for action in stored.actions)
    for planned, action in zip(record.plan.actions, stored.actions, strict=True):
        found = journal.files("one", action.id)
        assert (found, found.items) == (planned.files, planned.files.items)
    assert journal.files("other", stored.actions[0].id) == FileList()
    assert journal.files("one", "no-such-action") == FileList()


def test_only_what_was_done_to_a_table_is_verified(journal: Journal) -> None:
    journal.add(an_operation("one", a_plan("a.b", "c.d")))
    journal.add(an_operation("other", a_plan("a.b")))
    done, pending, elsewhere, _ = journal.get("one").steps
    journal.step("one", replace(done, progress=Progress.DONE, at=NOON))
    journal.step("one", replace(elsewhere, progress=Progress.DONE, at=NOON))
    journal.verified("one", [done, pending], NOON + timedelta(minutes=1))
    found = journal.get("one").steps
    assert found[0] == replace(done, progress=Progress.VERIFIED, at=NOON + timedelta(minutes=1))
    assert found[1] == pending
    assert found[2].progress is Progress.DONE
    assert {step.progress for step in journal.get("other").steps} == {Progress.PENDING}


def test_when_each_table_was_last_brought_to_its_end(journal: Journal) -> None:
    def operate(id: str, plan: Plan, minutes: int, *tables: str) -> None:
        journal.add(an_operation(id, plan))
        for step in journal.get(id).steps:
            journal.step(id, replace(step, progress=Progress.DONE, at=NOON))
        changed = [step for step in journal.get(id).steps if step.subject in tables]
        journal.verified(id, changed, NOON + timedelta(minutes=minutes))

    operate("late", a_plan("a.b", "c.d", kind="retention.expire"), 9, "a.b")
    operate("early", a_plan("a.b", "c.d", kind="retention.expire"), 1, "a.b", "c.d")
    operate("compact", a_plan("a.b", "e.f", kind="compaction.compact"), 5, "a.b", "e.f")
    at = {minutes: NOON + timedelta(minutes=minutes) for minutes in (1, 5, 9)}
    assert journal.last_done(["retention.expire"]) == {"a.b": at[9], "c.d": at[1]}
    assert journal.last_done(["compaction.compact"]) == {"a.b": at[5], "e.f": at[5]}
    both = journal.last_done(["compaction.compact", "retention.expire"])
    assert both == {"a.b": at[9], "c.d": at[1], "e.f": at[5]}
    assert both["a.b"].utcoffset() == timedelta()
    assert journal.last_done(["version.tag"]) == journal.last_done([]) == {}


def test_a_request_to_cancel_is_not_forgotten_when_the_operation_is_taken_up_again(journal: Journal) -> None:
    journal.add(an_operation("one"))
    journal.move("one", State.RUNNING, NOON)
    journal.request_stop("one", Stop.CANCEL)
    assert journal.get("one").stop_requested is Stop.CANCEL
    journal.move("one", State.PAUSED, NOON)
    assert journal.get("one").stop_requested is Stop.CANCEL
    journal.move("one", State.RUNNING, NOON)
    assert journal.stop_requested("one") is Stop.CANCEL


def test_text_is_never_taken_for_sql(journal: Journal) -> None:
    nasty = "a'b\"; DROP TABLE operations; -- %s :x {}"
    journal.add(an_operation(nasty, a_plan(nasty, name=nasty)))
    assert journal.get(nasty).target == nasty
    assert ids(journal.list(subjects=[nasty])) == [nasty]
    assert journal.list(subjects=["%"]) == []


class TestOnlyLasting:
    """What only a journal in a database can do, or must refuse."""

    def test_an_id_is_used_once(self, database: Database) -> None:
        journal = SqlJournal(database)
        journal.add(an_operation("one"))
        with pytest.raises(AlreadyExists, match="operation one is in the journal already"):
            journal.add(an_operation("one", a_plan("other.table")))
        assert journal.get("one") == an_operation("one")

    def test_what_was_written_is_read_by_another_process_later(self, database: Database) -> None:
        SqlJournal(database).add(an_operation("one"))
        database.close()
        assert SqlJournal(database).get("one") == an_operation("one")

    def test_an_error_with_a_value_that_json_has_no_word_for_is_still_written(self, database: Database) -> None:
        journal = SqlJournal(database)
        journal.add(an_operation("one"))
        journal.move("one", State.RUNNING, NOON)
        journal.move("one", State.FAILED, NOON, error={"message": "x", "at": NOON, "nul": "a\0b"})
        assert journal.get("one").error == {"message": "x", "at": str(NOON), "nul": "a\0b"}

    def test_a_time_without_a_zone_is_refused(self, database: Database) -> None:
        with pytest.raises(Exception, match="has no time zone"):
            SqlJournal(database).add(replace(an_operation("one"), created_at=datetime(2026, 1, 1)))

    def test_an_operation_that_is_refused_leaves_no_files_behind(self, database: Database) -> None:
        journal = SqlJournal(database)
        journal.add(an_operation("one"))
        other = a_plan("other.table")
        with pytest.raises(AlreadyExists):
            journal.add(an_operation("one", other))
        assert journal.files("one", other.actions[0].id) == FileList()

    def test_files_go_with_their_operation(self, database: Database) -> None:
        SqlJournal(database).add(an_operation("one"))
        with database.begin() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM action_files").scalar() == 1
            connection.exec_driver_sql("DELETE FROM operations")
            assert connection.exec_driver_sql("SELECT count(*) FROM action_files").scalar() == 0

    def test_a_plan_of_thousands_of_actions(self, database: Database) -> None:
        actions = (
            Action("tag", f"sales.orders_{n}", f"sales.orders_{n}", "tag it", {"number": n}) for n in range(4000)
        )
        plan = Plan("version.tag", "sales.*", tuple(actions))
        journal = SqlJournal(database)
        journal.add(an_operation("large", plan))
        assert len(journal.get("large").steps) == 4000
        assert ids(journal.list(subjects=["sales.orders_3999"])) == ["large"]
