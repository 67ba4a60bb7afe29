"""An interrupt pauses an operation at whatever moment it comes, and whatever becomes of it on its way.

Signals are real here: they are sent to this very process. Interrupts while Spark starts are in
`test_interrupted_start.py`, those at random moments in `tests/soak`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.errors import Interrupted, SparkUnavailable
from lakewarden.lifecycle import failpoints
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.interrupts import deferred, listening, raise_pending, received
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.states import State
from tests.lifecycle.house import House, Mark
from tests.small_lake import SmallLake

TABLES = ("sales.a", "sales.b")


@pytest.fixture(autouse=True)
def _not_ignored() -> Iterator[None]:
    """Shells ignore it for what they run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_at(number: int) -> Callable[[str, int], None]:
    return lambda _, passed: interrupt() if passed == number else None


def swallowed(then: Exception | None = None) -> Callable[[Action], None]:
    """Interrupts the first action, and loses the interrupt as libraries do: for another error, or for none."""

    def act(action: Action) -> None:
        if action.subject == "t" and action.arguments["ref"] == "a":
            try:
                interrupt()
            except KeyboardInterrupt:
                if then is not None:
                    raise then from None

    return act


@pytest.mark.parametrize("becomes", [SparkUnavailable("Spark does not start"), ZeroDivisionError(), None], ids=str)
def test_an_interrupt_that_is_turned_into_something_else_pauses(house: House, becomes: Exception | None) -> None:
    Mark.hooks.append(swallowed(becomes))
    with pytest.raises(Interrupted, match="stopped after [01] of 4 actions"):
        house.start("t", "u")

    record = house.journal.get("op-0")
    assert (record.state, record.error) == (State.PAUSED, None)
    assert "u" not in {table for table, _ in house.lake.tables.refs}
    assert "failed" not in {state for _, state in house.steps()}
    assert house.leases.held() == []
    Mark.hooks.clear()
    assert house.runner.run("op-0").result["marks"] == 4


def test_an_interrupt_while_the_operation_is_written_down(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be left as running, and nobody would be told its name."""
    add = house.journal.add

    def interrupted(record: Record) -> None:
        add(record)
        interrupt()

    monkeypatch.setattr(house.journal, "add", interrupted)
    with pytest.raises(Interrupted, match="op-0 stopped after 0 of 2") as told:
        house.start("t")
    assert told.value.hint == "Continue with: lakewarden operation resume op-0"
    assert house.journal.get("op-0").state is State.PAUSED
    assert house.leases.held() == []


def test_an_interrupt_while_a_lease_is_taken_leaves_none_behind(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire = house.leases.acquire

    def interrupted(key: str, *given: Any) -> Any:
        lease = acquire(key, *given)
        if key.startswith("table:"):
            interrupt()
        return lease

    monkeypatch.setattr(house.leases, "acquire", interrupted)
    with pytest.raises(Interrupted):
        house.start("t")
    assert house.leases.held() == []


def test_waiting_for_a_lease_ends_at_once(house: House) -> None:
    house.leases.acquire("table:uuid of t", "t", "op-other", "elsewhere", timedelta(hours=1))
    house.runner._sleep = lambda _: interrupt()
    operation = Mark(tables=["t"])
    with pytest.raises(Interrupted, match="stopped after 0 of 2"):
        house.runner.start(operation, house.runner.plan(operation), wait=timedelta(hours=1))


def test_an_interrupt_when_all_is_done_is_for_the_caller(house: House) -> None:
    failpoints.when("operation.done", interrupt)
    with pytest.raises(KeyboardInterrupt):
        house.start("t")
    assert house.journal.get("op-0").state is State.DONE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_waits_and_a_third_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), listening(signal.SIGINT), deferred() as lifted:
        interrupt()
        interrupt()
        assert received()
        with pytest.raises(KeyboardInterrupt), lifted():
            raise AssertionError("it is raised where this begins")
        interrupt()
        raise AssertionError("the third is raised anywhere")
    assert not received()
    raise_pending()


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As nohup and shells do for jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with listening(signal.SIGINT):
            interrupt()
            assert not received()
    finally:
        signal.signal(signal.SIGINT, before)


def test_interrupted_at_every_step_and_resumed(lake: SmallLake) -> None:
    for name in TABLES:
        lake.create(name, appends=1)
    passed: list[str] = []
    failpoints._armed.append(lambda point, _: passed.append(point))
    lake.warden.version.tag("sales.*", "undisturbed").apply()
    points = list(passed)
    assert points.count("commit.landed") == 2

    for number, point in enumerate(points, start=1):
        failpoints.arm("")
        failpoints._armed.append(interrupt_at(number))
        try:
            report = lake.warden.version.tag("sales.*", f"r{number}").apply()
        except Interrupted as told:
            id = told.hint.split()[-1]
            assert lake.warden.operation.show(id).state == "paused", point
            assert lake.warden.ground.leases.held() == [], point
            failpoints.arm("")
            (resumed,) = lake.warden.operation.resume(id)
            assert (resumed.state, resumed.done) == ("done", 2), point
        except KeyboardInterrupt:
            assert point == "operation.done"
        else:
            raise AssertionError(f"{point}: the interrupt was lost, and the report is {report}")
        assert all(lake.refs(name)[f"r{number}"] == lake.head(name) for name in TABLES), point


def test_the_command_line_says_so_in_one_line_before_anything_is_planned(lake: SmallLake, tmp_path: Path) -> None:
    lake.create()
    gate = tmp_path / "gate"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom lakewarden.features.version.tag import Tag\n"
        f"def slow(self, lake):\n    Path({str(gate)!r}).touch()\n    time.sleep(60)\nTag.plan = slow\n"
        "from lakewarden.doors.cli.main import main\nmain(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, *lake.command("version", "tag", "sales.orders", "v1")[3:]]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not gate.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    said = "Interrupted: stopped. lakewarden operation list shows whether an operation had begun."
    assert err.strip() == said
    assert lake.warden.operation.list() == []
