"""View sets under rough conditions: processes killed at random moments, and two at once on the same time.

`make soak` runs thirty rounds. The seed is printed where something fails, and `--seed` repeats it.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.features.viewset.logs import DAY, Logs
from tests.killing import bury, until_passed
from tests.lifecycle.test_two_processes import until
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.slow]
BLOCKS, HOURS = 3, 4
Held = dict[int, tuple[str, ...]]
"""By hour, the messages of its partition; none for a partition without rows."""


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        yield Logs(lake)


def held(logs: Logs) -> Held:
    """What is there, by metadata and by rows; both must say the same."""
    rows: dict[int, list[str]] = {}
    for row in logs.rows():
        rows.setdefault((row["begin_insert_time"] - DAY) // timedelta(hours=1), []).append(row["msg"])
    counted = {hour: count for (hour, _), count in logs.held().items()}
    assert {hour: len(rows.get(hour, ())) for hour in counted} == counted
    assert rows.keys() <= counted.keys()
    return {hour: tuple(sorted(rows.get(hour, ()))) for hour in counted}


def clean(logs: Logs, block: int) -> Held:
    """What a clean run gives for a block of hours."""
    source = logs.lake.catalog.load_table("raw.logs").scan().to_arrow().to_pylist()
    found: dict[int, list[str]] = {hour: [] for hour in range(block * HOURS, (block + 1) * HOURS)}
    for row in source:
        hour = (row["inserted_at"] - DAY) // timedelta(hours=1)
        if hour in found:
            found[hour].append(row["msg"])
    return {hour: tuple(sorted(messages)) for hour, messages in found.items()}


def of_block(block: int) -> list[str]:
    begin = DAY + timedelta(hours=block * HOURS)
    return ["--begin", begin.isoformat(), "--end", (begin + timedelta(hours=HOURS)).isoformat()]


@pytest.mark.rounds
def test_killed_at_a_random_moment(logs: Logs, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, lake, killed, done = random.Random(seed), logs.lake, 0, 0
    logs.insert(0)
    logs.define()
    there: Held = {}
    retired: tuple[str, Held] | None = None  # the last operation and what it took, while nothing took its place
    for number in range(rounds):
        why = f"round {number} of seed {seed}"
        logs.insert(*chance.sample(range(60 * BLOCKS * HOURS), 3))
        block = chance.randrange(BLOCKS)
        hours = range(block * HOURS, (block + 1) * HOURS)
        verb = chance.choice(["materialize", "regenerate", "retire", "materialize", "restore"])
        if verb == "restore" and retired is not None:
            command, wanted = ["restore", retired[0]], there | retired[1]
        elif verb in ("restore", "retire") and any(hour in there for hour in hours):
            verb, command = "retire", ["retire", "entries", *of_block(block)]
            wanted = {hour: some for hour, some in there.items() if hour not in hours}
        else:
            verb = "materialize" if verb in ("restore", "retire") else verb
            command, wanted = [verb, "entries", *of_block(block), "--delta", "1h"], there | clean(logs, block)
        trace = tmp_path / f"trace-{number}"
        process = lake.start("viewset", *command, "--apply", failpoints=f"trace:{trace}")
        until_passed(process, trace, chance.randint(1, 30))
        time.sleep(chance.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        bury(lake)
        lake.warden.operation.resume(wait="20s")

        assert {row.state for row in lake.warden.operation.list(limit=1000)} <= {"done"}, why
        now = held(logs)
        assert now in (there, wanted), why
        newest = next((one for one in lake.warden.operation.list(kind=f"viewset.{verb}", limit=1)), None)
        if now == wanted != there:
            done += 1
            taken = {hour: some for hour, some in there.items() if hour not in now}
            retired = (newest.id, taken) if verb == "retire" and newest is not None else None
        there = now
    assert killed > 0 and done > 0, f"seed {seed}: {killed} killed, {done} done"


@pytest.mark.soak
def test_two_processes_give_one_set_of_partitions(logs: Logs, tmp_path: Path) -> None:
    logs.insert(0, 61, 62, 200)
    logs.define()
    gate, trace = tmp_path / "gate", tmp_path / "trace"
    command = ("viewset", "materialize", "entries", *of_block(0), "--delta", "1h", "--wait", "120s")
    first = logs.lake.start(*command, failpoints=f"wait@viewset.staged:{gate}")
    until(gate)
    second = logs.lake.start(*command, failpoints=f"trace:{trace}")
    until_passed(second, trace, 2)  # it has planned, and waits for the lease
    assert second.poll() is None and held(logs) == {}
    gate.unlink()
    for process in (first, second):
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
    assert held(logs) == clean(logs, 0)
    assert len(logs.lake.catalog.load_table("viewsets.entries").metadata.snapshots) == 1
    logs.insert(5)
    both = [logs.lake.start(*command) for _ in range(2)]
    codes = [process.wait(240) for process in both]
    for process in both:
        process.communicate()
    assert codes == [0, 0] and held(logs) == clean(logs, 0)
