"""Several tables at once: each alone as ever, and whatever ends the whole ends it for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Event

import pytest

from lakewarden.errors import LakewardenError, LeaseLost, SomeFailed
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.states import State, Stop
from tests.lifecycle.house import House, Mark

TABLES = [f"t{number}" for number in range(8)]
MINUTE = timedelta(minutes=1)


def on_first(act: Callable[[Action], None]) -> None:
    """Let something happen in the first action on each table."""
    Mark.hooks.append(lambda action: act(action) if action.arguments["ref"] == "a" else None)


def test_as_many_as_said_are_worked_on_at_once_and_no_more(any_house: House) -> None:
    together, working, most = Barrier(4, timeout=30), set[str](), []

    def meet(action: Action) -> None:
        working.add(action.subject)
        together.wait()  # breaks unless four come here at once
        most.append(len(working))
        together.wait()
        working.discard(action.subject)

    on_first(meet)
    report = any_house.start(*TABLES, parallel=4)

    assert max(most) == 4
    assert report.result == {"actions": 16, "subjects": 8, "marks": 16, "last": "mark t7 b"}
    assert {state for _, state in any_house.steps()} == {"verified"}
    assert any_house.leases.held() == []
    assert any_house.journal.get("op-0").state is State.DONE


def test_each_table_is_leased_while_it_is_worked_on_and_its_actions_keep_their_order(any_house: House) -> None:
    unleased: list[str] = []
    order: dict[str, list[str]] = {}

    def look(action: Action) -> None:
        held = {lease.key: lease.operation for lease in any_house.leases.held()}
        if (held.get(action.lease), held.get("operation:op-0")) != ("op-0", "op-0"):
            unleased.append(action.subject)
        order.setdefault(action.subject, []).append(str(action.arguments["ref"]))

    Mark.hooks.append(look)
    any_house.start(*TABLES, parallel=8)
    assert unleased == []
    assert order == {table: ["a", "b"] for table in TABLES}


def test_events_come_one_at_a_time_and_count_up(house: House) -> None:
    inside = threading.Lock()

    def watch(event: object) -> None:
        assert inside.acquire(blocking=False), "two threads told at once"
        house.events.append(event)  # type: ignore[arg-type]
        inside.release()

    house.runner.watch = watch
    house.start(*TABLES, parallel=8)
    done = [event.done for event in house.events]
    assert done == sorted(done)
    assert (house.events[0].phase, house.events[-1].phase, done[-1]) == ("started", "finished", 16)


def test_one_that_fails_does_not_stop_the_others(any_house: House) -> None:
    def fail(action: Action) -> None:
        if action.subject == "t2":
            raise LakewardenError("t2 is broken")
        if action.subject == "t5":
            raise ZeroDivisionError

    on_first(fail)
    with pytest.raises(SomeFailed, match="2 of 8 failed, the others are done: t2: t2 is broken; t5") as e:
        any_house.start(*TABLES, parallel=3)
    assert [failure["subject"] for failure in e.value.details["failures"]] == ["t2", "t5"]  # in the plan's order
    assert len(any_house.lake.tables.refs) == 12
    states = dict(any_house.steps())
    assert (states["t2 a"], states["t2 b"], states["t5 a"]) == ("failed", "pending", "failed")
    assert any_house.journal.get("op-0").state is State.FAILED

    Mark.hooks.clear()
    assert any_house.runner.run("op-0").result["actions"] == 16


def test_an_interrupt_lets_every_thread_stop_between_two_actions(any_house: House) -> None:
    all_are_at_work = Barrier(3, timeout=30)

    def interrupt(action: Action) -> None:
        if action.subject in TABLES[:3]:
            all_are_at_work.wait()
        if action.subject == "t0":
            raise KeyboardInterrupt
        time.sleep(0.1)

    on_first(interrupt)
    with pytest.raises(LakewardenError, match="stopped after [0-9] of 16 actions"):
        any_house.start(*TABLES, parallel=3)
    record = any_house.journal.get("op-0")
    assert record.state is State.PAUSED
    assert threads_of("op-0") == []
    assert any_house.leases.held() == []
    assert {"t0", "t7"}.isdisjoint(table for table, _ in any_house.lake.tables.refs)

    Mark.hooks.clear()
    assert any_house.runner.run("op-0").result["marks"] == 16


def test_an_action_hears_of_an_interrupt_where_it_tells_how_far_it_is(house: House) -> None:
    """A long action on another thread is not waited for."""
    halted = Event()

    class Long(Mark):
        def apply(self, action: Action, lake: object) -> object:  # type: ignore[override]
            if action.subject == "t0":
                raise KeyboardInterrupt
            for piece in range(10**6):
                lake.progress(piece, 10**6)  # type: ignore[attr-defined]
                halted.wait(0.001)
            raise AssertionError("nobody told it to stop")

    operation = Long(tables=["t0", "t1"], parallel=2)
    with pytest.raises(LakewardenError, match="stopped after 0 of 4"):
        house.runner.start(operation, house.runner.plan(operation))
    assert house.journal.get("op-0").state is State.PAUSED


def test_a_cancel_ends_all_of_them_between_two_actions(any_house: House) -> None:
    id = any_house.store(*TABLES, parallel=3, silent=True)
    together = Barrier(3, timeout=30)

    def cancel(action: Action) -> None:
        together.wait()
        any_house.journal.request_stop(id, Stop.CANCEL)
        together.wait()

    on_first(cancel)
    with pytest.raises(LakewardenError, match="was cancelled after 3 of 16 actions"):
        any_house.runner.run(id)
    record = any_house.journal.get(id)
    assert record.state is State.CANCELLED
    assert record.result is not None and record.result["actions"] == 3
    assert sorted(any_house.lake.tables.refs) == [("t0", "a"), ("t1", "a"), ("t2", "a")]


def test_a_budget_ends_all_of_them_and_what_was_applied_is_verified(any_house: House) -> None:
    together = Barrier(3, timeout=30)

    def spend(action: Action) -> None:
        together.wait()
        any_house.pass_time(timedelta(seconds=10))
        together.wait()

    on_first(spend)
    report = any_house.start(*TABLES, parallel=3, budget="30s")

    assert report.state is State.DONE
    assert (report.result["actions"], report.result["left"], report.result["stopped"]) == (3, 13, "budget")
    assert len(report.left) == 13
    assert [says for says, state in any_house.steps() if state == "verified"] == ["t0 a", "t1 a", "t2 a"]


def test_a_lost_operation_stops_every_thread_and_nothing_more_is_written(house: House) -> None:
    together = Barrier(3, timeout=30)

    def suspended(action: Action) -> None:
        if together.wait() == 0:
            house.pass_time(timedelta(minutes=5))
            house.leases.acquire("operation:op-0", "operation op-0", "op-0", "elsewhere", MINUTE)
        together.wait()

    on_first(suspended)
    with pytest.raises(LeaseLost, match="no longer holds operation op-0"):
        house.start(*TABLES, parallel=3)
    record = house.journal.get("op-0")
    assert (record.state, record.error) == (State.RUNNING, None)
    assert {str(step.progress) for step in record.steps} == {"pending"}
    assert threads_of("op-0") == []


def test_a_lost_table_fails_alone(house: House) -> None:
    def taken(action: Action) -> None:
        if action.subject == "t1":
            lease = next(lease for lease in house.leases.held() if lease.key == action.lease)
            house.leases.release(lease)
            house.leases.acquire(action.lease, "table t1", "op-other", "elsewhere", MINUTE)

    class Fenced(Mark):
        def apply(self, action: Action, lake: object) -> object:  # type: ignore[override]
            for hook in self.hooks:
                hook(action)
            lake.fence()  # type: ignore[attr-defined]
            return super().apply(action, lake)

    Mark.hooks.append(taken)
    operation = Fenced(tables=["t0", "t1", "t2"], parallel=3)
    with pytest.raises(SomeFailed, match="1 of 3 failed.*no longer holds t1"):
        house.runner.start(operation, house.runner.plan(operation))
    assert {table for table, _ in house.lake.tables.refs} == {"t0", "t2"}


def test_more_threads_than_tables_are_not_started(house: House) -> None:
    seen: set[str] = set()
    Mark.hooks.append(lambda action: seen.add(threading.current_thread().name))
    house.start("t0", parallel=16)
    assert seen == {threading.current_thread().name}  # a single table is worked on where the call was


def threads_of(operation: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(operation)]
