"""The runner, with everything it works with in memory: order, states, progress and failures.

Covers `lifecycle/run.py` and `lifecycle/subject_run.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.erased_values import ERASED
from lakewarden.errors import (
    IllegalTransition,
    Interrupted,
    LakewardenError,
    LeaseHeld,
    LeaseLost,
    SomeFailed,
    StalePlan,
    StorageUnavailable,
    VerificationFailed,
)
from lakewarden.lifecycle.action import Action, Facts, Finding, Outcome
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.progress import Event
from lakewarden.lifecycle.requirement import RefAt, SnapshotKept
from lakewarden.lifecycle.states import State, Stop
from tests.lifecycle.house import House, Mark


def test_runs_through_every_state_and_tells_how_far_it_is(house: House) -> None:
    report = house.start("t", "u")

    assert report.result == {"actions": 4, "subjects": 2, "marks": 4, "last": "mark u b"}  # text: the last one counts
    phases = [event.phase for event in house.events]
    assert (phases.count("applied"), phases.count("working")) == (4, 4)
    assert {(e.part, e.says) for e in house.events if e.phase == "working"} == {(0.5, "half of it")}
    assert [event.done for event in house.events if event.phase == "applied"] == [1, 2, 3, 4]
    assert (house.events[0].phase, house.events[-1].phase) == ("started", "finished")
    record = house.journal.get(str(report.id))
    assert (record.state, record.actor, record.finished_at) == (State.DONE, "somebody", house.now)
    assert house.leases.held() == []


def test_an_action_that_is_so_already_is_not_applied(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("t", "a")] = 1
    applied: list[str] = []
    Mark.hooks.append(lambda action: applied.append(str(action.arguments["ref"])))

    report = house.runner.start(operation, plan)

    assert applied == ["b"]
    assert report.result["marks"] == 2


def test_what_apply_says_is_not_believed(house: House) -> None:
    with pytest.raises(VerificationFailed, match="not the case after applying: mark t a"):
        house.start("t", lies=True)
    record = house.journal.list()[0]
    assert record.state is State.FAILED
    assert [finding.subject for finding in record.findings] == ["t", "t"]


def test_a_stale_action_stops_its_table_and_not_the_others(house: House) -> None:
    operation = Mark(tables=["t", "u", "v"])
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("u", "a")] = 7

    with pytest.raises(SomeFailed, match="1 of 3 failed") as failed:
        house.runner.start(operation, plan)

    (failure,) = failed.value.details["failures"]
    assert (failure["subject"], failure["code"]) == ("u", "stale")
    assert "did not exist and is now at 7" in failure["message"]
    assert ("v", "b") in house.lake.tables.refs
    assert ("u", "b") not in house.lake.tables.refs
    steps = [(step.subject, str(step.progress)) for step in house.journal.list()[0].steps]
    assert steps == [("t", "verified")] * 2 + [("u", "stale"), ("u", "pending")] + [("v", "verified")] * 2


def test_an_action_whose_value_was_erased_is_refused_unless_it_is_done(house: House) -> None:
    operation = Mark(tables=["t"], refs=(f"of {ERASED}", f"with {ERASED}"))
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("t", f"of {ERASED}")] = 1
    with pytest.raises(StalePlan, match="a value that it names was erased since"):
        house.runner.start(operation, plan)
    record = house.journal.get("op-0")
    assert [str(step.progress) for step in record.steps] == ["verified", "stale"]
    assert not [action for what, action in Mark.seen if what == "apply"]


def test_what_was_applied_before_a_table_stopped_is_verified_all_the_same(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("t", "b")] = 7

    with pytest.raises(StalePlan):
        house.runner.start(operation, plan)

    record = house.journal.get("op-0")
    assert [str(step.progress) for step in record.steps] == ["verified", "stale"]
    assert (record.state, record.findings) == (State.FAILED, ())


def test_what_was_not_so_before_a_table_stopped_is_written_down(house: House) -> None:
    operation = Mark(tables=["t"], lies=True)
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("t", "b")] = 7

    with pytest.raises(StalePlan):  # what stopped it is what is told
        house.runner.start(operation, plan)

    record = house.journal.get("op-0")
    assert [str(step.progress) for step in record.steps] == ["done", "stale"]
    assert [finding.message for finding in record.findings] == ["not the case after applying: mark t a"]


def test_what_nobody_looked_at_is_not_verified(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are applied, and the run ends before it looks; when it is taken up, the second cannot be looked at."""

    def interrupted(self: Mark, plan: Plan, lake: Any) -> list[Finding]:
        raise KeyboardInterrupt

    def unknown(self: Mark, action: Action, lake: Any) -> bool:
        if action.arguments["ref"] == "b":
            raise StorageUnavailable("gone for a moment")
        return True

    operation = Mark(tables=["t"], refs=("a", "b", "c"))
    with monkeypatch.context() as patched:
        patched.setattr(Mark, "verify", interrupted)
        with pytest.raises(Interrupted):
            house.runner.start(operation, house.runner.plan(operation))
    with monkeypatch.context() as patched, pytest.raises(StorageUnavailable):
        patched.setattr(Mark, "holds", unknown)
        house.runner.run("op-0")
    assert [str(step.progress) for step in house.journal.get("op-0").steps] == ["verified", "failed", "done"]
    assert house.runner.run("op-0").state is State.DONE


def test_a_defect_on_one_table_does_not_stop_the_others(house: House) -> None:
    def break_u(action: Action) -> None:
        if action.subject == "u":
            raise ZeroDivisionError("by zero")

    Mark.hooks.append(break_u)
    with pytest.raises(SomeFailed, match="ZeroDivisionError") as failed:
        house.start("t", "u", "v")
    assert ("v", "b") in house.lake.tables.refs
    assert "by zero" not in str(failed.value.document())  # what a defect holds is for the log only
    assert "by zero" not in str(house.journal.list()[0])


def test_a_single_table_fails_with_its_own_error(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("t", "a")] = 7
    with pytest.raises(StalePlan) as failed:
        house.runner.start(operation, plan)
    assert failed.value.details["operation"] == "op-0"


def test_a_held_table_is_refused_or_waited_for(house: House) -> None:
    house.leases.acquire("table:uuid of t", "t", "op-other", "elsewhere", timedelta(seconds=25))
    with pytest.raises(LeaseHeld, match="held by operation op-other") as refused:
        house.start("t")
    assert (refused.value.details["held_by"], refused.value.details["operation"]) == ("op-other", "op-0")
    assert house.journal.get("op-0").state is State.FAILED

    report = house.runner.run("op-0", wait=timedelta(seconds=60))
    assert report.state is State.DONE
    assert len(house.slept) == 3


def test_upkeep_leaves_a_held_table_to_its_holder(any_house: House) -> None:
    any_house.leases.acquire("table:uuid of t", "t", "op-other", "elsewhere", timedelta(seconds=25))
    report = any_house.start("t", "u", skips=True)

    assert (report.state, report.left) == (State.DONE, ())
    assert report.result == {"actions": 2, "subjects": 1, "marks": 2, "last": "mark u b", "skipped": 1}
    (skipped,) = report.skipped
    assert skipped.startswith("t is held by operation op-other (elsewhere) until ")
    assert report.document()["skipped"] == [skipped]
    assert {table for table, _ in any_house.lake.tables.refs} == {"u"}
    assert [str(step.progress) for step in any_house.journal.get("op-0").steps] == ["pending"] * 2 + ["verified"] * 2
    assert ("skipped", "t") in [(event.phase, event.subject) for event in any_house.events]


def test_upkeep_that_waited_in_vain_fails(house: House) -> None:
    house.leases.acquire("table:uuid of t", "t", "op-other", "elsewhere", timedelta(hours=1))
    operation = Mark(tables=["t", "u"], skips=True)
    with pytest.raises(SomeFailed, match="1 of 2 failed, the others are done: t: t is held"):
        house.runner.start(operation, house.runner.plan(operation), wait=timedelta(seconds=30))


def test_one_that_lost_its_lease_says_nothing_more(house: House) -> None:
    def suspended(action: Action) -> None:
        house.now += timedelta(minutes=5)
        house.leases.acquire("operation:op-0", "operation op-0", "op-0", "elsewhere", timedelta(seconds=60))

    Mark.hooks.append(suspended)
    with pytest.raises(LeaseLost, match="no longer holds operation op-0"):
        house.start("t")
    record = house.journal.get("op-0")
    assert (record.state, record.error) == (State.RUNNING, None)
    assert {str(step.progress) for step in record.steps} == {"pending"}


def test_an_interrupt_pauses_and_a_resume_does_only_the_rest(house: House) -> None:
    def interrupt(action: Action) -> None:
        if action.arguments["ref"] == "b":
            raise KeyboardInterrupt

    Mark.hooks.append(interrupt)
    with pytest.raises(LakewardenError, match="stopped after 1 of 2 actions"):
        house.start("t")
    assert house.journal.get("op-0").state is State.PAUSED

    Mark.hooks[:] = []
    free, held = house.runner.unfinished()
    assert ([record.id for record in free], held) == (["op-0"], [])
    assert house.runner.run("op-0").result["marks"] == 2
    of_actions = [stamp for stamp in house.stamps if stamp.action]
    first, interrupted, *again = of_actions  # whoever goes on stamps its commits as the one before did
    assert set(again) == {first, interrupted}
    assert {stamp.operation for stamp in house.stamps} == {"op-0"}


def test_an_empty_plan_is_done_and_not_written_down(house: House) -> None:
    report = house.start()
    assert (report.id, report.state) == (None, State.DONE)
    assert house.journal.list() == []


def test_a_plan_survives_being_stored(house: House) -> None:
    plan = house.runner.plan(Mark(tables=["t", "u"]))
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert (again.id, [a.id for a in again.actions]) == (plan.id, [a.id for a in plan.actions])


def test_a_plans_id_is_of_what_it_does_and_not_of_what_is_said_about_it(house: House) -> None:
    plan = house.runner.plan(Mark(tables=["t"]))
    told_otherwise = [Action(**{**vars(a), "says": "in other words", "expects": {}}) for a in plan.actions]
    assert Plan(plan.kind, plan.target, tuple(told_otherwise), ("a warning",)).id == plan.id
    assert Plan(plan.kind, plan.target, plan.actions[:1]).id != plan.id


def test_a_cancel_asked_for_while_it_was_held_is_minded_when_it_is_resumed(house: House) -> None:
    operation = Mark(tables=["t"])
    id = house.runner.store(operation, house.runner.plan(operation)).id
    house.journal.move(id, State.RUNNING, house.now)
    house.leases.acquire(f"operation:{id}", "it", id, "a process that is dead", timedelta(seconds=60))
    assert house.runner.cancel(id).state is State.RUNNING
    house.now += timedelta(seconds=61)

    with pytest.raises(LakewardenError, match="was cancelled after 0 of 2 actions"):
        house.runner.run(id)

    assert house.journal.get(id).state is State.CANCELLED
    assert house.lake.tables.refs == {}


def test_a_cancel_is_minded_while_waiting_for_a_table(house: House) -> None:
    house.leases.acquire("table:uuid of t", "t", "op-other", "elsewhere", timedelta(hours=1))
    operation = Mark(tables=["t"])
    id = house.runner.store(operation, house.runner.plan(operation)).id
    house.runner._sleep = lambda _: house.journal.request_stop(id, Stop.CANCEL)

    with pytest.raises(LakewardenError, match="was cancelled"):
        house.runner.run(id, wait=timedelta(hours=1))


def test_an_interrupt_after_a_takeover_leaves_the_journal_alone(house: House) -> None:
    def suspended(action: Action) -> None:
        house.now += timedelta(minutes=5)
        house.leases.acquire("operation:op-0", "operation op-0", "op-0", "elsewhere", timedelta(seconds=60))
        raise KeyboardInterrupt

    Mark.hooks.append(suspended)
    with pytest.raises(LeaseLost):
        house.start("t")
    assert house.journal.get("op-0").state is State.RUNNING


def test_an_interrupt_when_all_is_done_changes_nothing(house: House) -> None:
    def late(event: Event) -> None:
        if event.phase == "finished":
            raise KeyboardInterrupt

    house.runner.watch = late
    assert house.start("t").state is State.DONE


def test_a_table_brought_to_its_end_is_not_looked_at_again(house: House) -> None:
    operation = Mark(tables=["t", "u"])
    plan = house.runner.plan(operation)
    house.lake.tables.refs[("u", "a")] = 7
    with pytest.raises(SomeFailed):
        house.runner.start(operation, plan)
    house.lake.tables.refs.clear()  # what was done to t is taken back by somebody, and u is mended

    report = house.runner.run("op-0")

    assert report.state is State.DONE
    assert set(house.lake.tables.refs) == {("u", "a"), ("u", "b")}


def test_a_table_of_the_same_name_that_is_another_is_refused_before_anything_is_looked_at(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = house.runner.plan(operation)
    house.lake.tables.refs |= {("t", "a"): 1, ("t", "b"): 1}  # it would hold, on the other table
    house.lake.tables.uuid = lambda name: "another"  # type: ignore[method-assign]
    with pytest.raises(StalePlan, match="was recreated: its UUID was uuid of t and is now another"):
        house.runner.start(operation, plan)


def test_tables_refused_by_the_plan_make_the_whole_fail_after_the_others(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = replace(house.runner.plan(operation), refused=(Finding("u", "it has one already"),))
    with pytest.raises(SomeFailed, match="1 of 2 failed, the others are done: u: it has one already"):
        house.runner.start(operation, plan)
    assert ("t", "b") in house.lake.tables.refs
    with pytest.raises(SomeFailed):
        house.runner.start(operation, replace(plan, actions=()))


def test_whoever_applies_is_written_down_beside_whoever_planned(house: House) -> None:
    operation = Mark(tables=["t"])
    id = house.runner.store(operation, house.runner.plan(operation)).id
    house.runner.actor = "somebody else"
    house.runner.run(id)
    record = house.journal.get(id)
    assert (record.actor, record.applied_by) == ("somebody", "somebody else")


def test_waiting_for_dead_holders_ends_when_they_are_gone_or_seen_to_live(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = house.runner.plan(operation)
    for id in ("op-dead", "op-alive"):
        house.journal.add(Record.planned(id, plan, operation.model_dump_json(), "somebody", house.now))
        house.journal.move(id, State.RUNNING, house.now)
    house.leases.acquire("operation:op-of-nobody", "it", "op-of-nobody", "elsewhere", timedelta(hours=1))
    house.leases.acquire("operation:op-dead", "it", "op-dead", "elsewhere", timedelta(seconds=35))
    house.runner.await_dead_holders()
    assert len(house.slept) == 4  # ten seconds each

    living = house.leases.acquire("operation:op-alive", "it", "op-alive", "elsewhere", timedelta(seconds=60))
    house.slept.clear()

    def renew(seconds: float) -> None:
        house.sleep(seconds)
        house.leases.renew(living, timedelta(seconds=60))

    house.runner._sleep = renew
    house.runner.await_dead_holders()
    assert len(house.slept) == 1


def test_an_action_that_was_undone_after_it_was_journaled_is_looked_at_again(house: House) -> None:
    def interrupt(action: Action) -> None:
        if action.arguments["ref"] == "b":
            raise KeyboardInterrupt

    Mark.hooks.append(interrupt)
    with pytest.raises(LakewardenError, match="stopped after 1 of 2"):
        house.start("t")
    Mark.hooks[:] = []
    house.lake.tables.refs.clear()

    assert house.runner.run("op-0").state is State.DONE
    assert set(house.lake.tables.refs) == {("t", "a"), ("t", "b")}


def test_a_cancel_after_a_takeover_leaves_the_journal_alone(house: House) -> None:
    def suspended(action: Action) -> None:
        house.now += timedelta(minutes=5)
        house.leases.acquire("operation:op-0", "operation op-0", "op-0", "elsewhere", timedelta(seconds=60))
        house.journal.request_stop("op-0", Stop.CANCEL)

    Mark.hooks.append(suspended)
    with pytest.raises(LeaseLost):
        house.start("t")
    assert house.journal.get("op-0").state is State.RUNNING


def test_a_plan_that_refuses_other_tables_is_another_plan(house: House) -> None:
    plan = house.runner.plan(Mark(tables=["t"]))
    assert replace(plan, refused=(Finding("u", "no"),)).id != plan.id


def test_a_stopped_run_counts_only_the_tables_it_touched(house: House) -> None:
    def interrupt(action: Action) -> None:
        if action.subject == "u":
            raise KeyboardInterrupt

    Mark.hooks.append(interrupt)
    with pytest.raises(LakewardenError, match="stopped after 2 of 6"):
        house.start("t", "u", "v")
    result = house.journal.get("op-0").result
    assert result == {"actions": 2, "subjects": 1, "marks": 2, "last": "mark t b"}


def test_an_operation_is_free_when_its_own_lease_is_though_its_table_is_still_held(house: House) -> None:
    operation = Mark(tables=["t"])
    id = house.runner.store(operation, house.runner.plan(operation)).id
    house.journal.move(id, State.RUNNING, house.now)
    house.leases.acquire("table:uuid of t", "table t", id, "dead", timedelta(seconds=25))

    free, held = house.runner.unfinished()
    assert ([record.id for record in free], held) == ([id], [])
    assert house.runner.run(id, wait=timedelta(seconds=60)).state is State.DONE


@pytest.mark.parametrize(
    ("done", "total", "part"), [(0, 4, 0.0), (1, 4, 0.25), (4, 4, 1.0), (9, 4, 1.0), (-1, 4, 0.0), (1, 0, 0.0)]
)
def test_an_action_may_tell_any_numbers(house: House, done: int, total: int, part: float) -> None:
    class Counts(Mark):
        def apply(self, action: Action, lake: Any) -> Outcome:
            lake.progress(done, total)
            return super().apply(action, lake)

    operation = Counts(tables=["t"])
    house.runner.start(operation, house.runner.plan(operation))
    told = next(event for event in house.events if event.phase == "working")
    assert (told.part, told.subject, told.says) == (part, "t", "mark t a")


def test_results_add_up_numbers_and_keep_the_last_of_anything_else(house: House) -> None:
    facts: Iterator[Facts] = iter(
        [{"n": 1, "x": 0.5, "s": "a", "b": True}, {"n": 2, "x": 0.25, "s": "b", "b": False, "z": None}]
    )

    class Tells(Mark):
        def apply(self, action: Action, lake: Any) -> Outcome:
            super().apply(action, lake)
            return Outcome(next(facts))

    operation = Tells(tables=["t"])
    report = house.runner.start(operation, house.runner.plan(operation))
    assert report.result == {"actions": 2, "subjects": 1, "n": 3, "x": 0.75, "s": "b", "b": False, "z": None}


def test_a_requirement_is_asked_with_the_files_of_the_action(house: House) -> None:
    """Which files must still be live is known to the action, not to the requirement."""
    asked: list[FileList] = []

    @dataclass(frozen=True)
    class Asks(RefAt):
        def broken(self, lake: Any, files: FileList) -> str | None:
            asked.append(files)
            return super().broken(lake, files)

    operation = Mark(tables=["t"], files=3)
    plan = house.runner.plan(operation)
    need = Asks("t", "a", None)
    house.runner.start(operation, replace(plan, actions=(replace(plan.actions[0], requires=(need,)),)))
    assert [[file.path for file in files.items] for files in asked] == [["t/a/0", "t/a/1", "t/a/2"]]


def test_a_snapshot_that_is_gone_makes_an_action_stale(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = house.runner.plan(operation)
    needing = replace(plan, actions=tuple(replace(a, requires=(SnapshotKept("t", 7),)) for a in plan.actions))
    with pytest.raises(StalePlan, match="snapshot 7 of t no longer exists"):
        house.runner.start(operation, needing)
    assert house.lake.tables.refs == {}

    house.lake.tables.snapshots[("t", 7)] = object()
    assert house.runner.run("op-0").state is State.DONE


def test_what_may_be_applied_and_what_resumed(house: House) -> None:
    id = house.store("t")
    with pytest.raises(IllegalTransition, match="is planned: there is nothing to resume"):
        house.runner.resumable(id)
    house.runner.apply(id)
    for refused in (house.runner.apply, house.runner.resumable):
        with pytest.raises(IllegalTransition, match=f"operation {id} is done"):
            refused(id)

    Mark.hooks.append(_interrupt)
    with pytest.raises(LakewardenError, match="stopped after 0"):
        house.start("u")
    with pytest.raises(IllegalTransition, match="is paused, not planned") as told:
        house.runner.apply("op-1")
    assert told.value.hint == "Resume it with: lakewarden operation resume op-1"
    assert house.runner.resumable("op-1").id == "op-1"


def test_a_refusal_says_what_to_do_whatever_was_asked(house: House) -> None:
    operation = Mark(tables=["t"])
    plan = replace(house.runner.plan(operation), refused=(Finding("u", "gc.enabled is false"),))
    with pytest.raises(SomeFailed) as told:
        house.runner.start(operation, plan)
    assert told.value.hint == "Fix the problems, or exclude those subjects, and plan again."


def _interrupt(action: Action) -> None:
    raise KeyboardInterrupt


def test_what_is_said_with_apply_holds_though_the_same_plan_was_shown_before(house: House) -> None:
    shown = Mark(tables=["t", "u"])
    house.runner.store(shown, house.runner.plan(shown))
    said = Mark(tables=["t", "u"], budget=timedelta())
    report = house.runner.start(said, house.runner.plan(said))
    assert report.result["stopped"] == "budget"
    assert house.journal.get(str(report.id)).request == said.model_dump_json()
