"""Real processes that race each other through one control database: one wins, nobody fails, nothing is lost."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.errors import IllegalTransition, LeaseHeld
from lakewarden.lifecycle.journal import Progress
from lakewarden.lifecycle.states import State
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.leases import SqlLeases
from tests.state.records import NOON, a_plan, an_operation

RACERS = 6
ROUNDS = 30
MINUTE = timedelta(minutes=1)

Race = Callable[[Callable[..., Any], str], list[Any]]

start: Any = None  # the barrier that a racer waits at, so that all begin together


def _line_up(barrier: Any) -> None:
    global start
    start = barrier


@pytest.fixture(scope="module")
def race() -> Iterator[Race]:
    """Runs one function in all racers at once and collects what each returns."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(RACERS, spawn, _line_up, (spawn.Barrier(RACERS, timeout=60),)) as racers:

        def race(act: Callable[..., Any], url: str) -> list[Any]:
            running = [racers.submit(act, url, racer) for racer in range(RACERS)]
            return [racer.result(90) for racer in running]

        yield race


def first_use(url: str, racer: int) -> int:
    with closing(Database(url)) as database:
        start.wait()
        SqlJournal(database).add(an_operation(f"racer-{racer}"))
        return len(SqlJournal(database).list())


def take_leases(url: str, racer: int) -> list[tuple[int, int]]:
    """The (round, epoch) of each round won: a lease that nobody had, and one that was given back a moment ago."""
    won = []
    with closing(Database(url)) as database:
        leases = SqlLeases(database)
        for turn in range(ROUNDS):
            held = []
            start.wait()
            for key in (f"fresh:{turn}", "table:one"):
                try:
                    held.append(leases.acquire(key, key, f"racer-{racer}", f"host {racer}", MINUTE))
                except LeaseHeld:
                    continue
                won.append((-turn - 1 if key != "table:one" else turn, held[-1].epoch))
            start.wait()
            for lease in held:
                leases.check(lease)
                leases.release(leases.renew(lease, MINUTE))
    return won


def take_over(url: str, racer: int) -> int | None:
    """The epoch of an expired lease, for the one who gets it."""
    with closing(Database(url)) as database:
        start.wait()
        try:
            return SqlLeases(database).acquire("table:dead", "table dead", f"racer-{racer}", "host", MINUTE).epoch
        except LeaseHeld:
            return None


def end_operations(url: str, racer: int) -> list[int]:
    """The operations that this racer ended; each writes down a step of all of them."""
    ended = []
    with closing(Database(url)) as database:
        journal = SqlJournal(database)
        for number in range(10):
            start.wait()
            step = journal.get(f"op-{number}").steps[racer]
            journal.step(f"op-{number}", replace(step, progress=Progress.DONE, facts={"racer": racer}, at=NOON))
            try:
                journal.move(f"op-{number}", State.CANCELLED, NOON, result={"racer": racer})
                ended.append(number)
            except IllegalTransition:
                continue
    return ended


def test_first_use_by_all_at_once(race: Race, fresh_url: str) -> None:
    seen = race(first_use, fresh_url)
    assert max(seen) == RACERS
    with closing(Database(fresh_url)) as database:
        assert len(SqlJournal(database).list()) == RACERS


def test_one_racer_a_round_gets_the_lease(race: Race, fresh_url: str) -> None:
    with closing(Database(fresh_url)) as database:
        assert SqlLeases(database).held() == []
        won = sorted(result for racer in race(take_leases, fresh_url) for result in racer)
        fresh, passed_on = won[:ROUNDS], won[ROUNDS:]
        assert fresh == [(turn, 1) for turn in range(-ROUNDS, 0)]
        assert passed_on == [(turn, turn + 1) for turn in range(ROUNDS)]
        assert SqlLeases(database).held() == []
        SqlLeases(database).acquire("table:dead", "table dead", "killed", "host", timedelta(seconds=-1))
        assert sorted(epoch or 0 for epoch in race(take_over, fresh_url)) == [0] * (RACERS - 1) + [2]


def test_one_racer_ends_an_operation_and_no_step_is_lost(race: Race, fresh_url: str) -> None:
    with closing(Database(fresh_url)) as database:
        journal = SqlJournal(database)
        for number in range(10):
            journal.add(an_operation(f"op-{number}", a_plan("a.b", "c.d", "e.f")))
        ended = race(end_operations, fresh_url)
        assert sorted(number for racer in ended for number in racer) == list(range(10))
        for record in journal.list():
            winner = next(racer for racer in range(RACERS) if int(record.id[3:]) in ended[racer])
            assert (record.state, record.result) == (State.CANCELLED, {"racer": winner})
            assert [step.facts for step in record.steps] == [{"racer": racer} for racer in range(RACERS)]
