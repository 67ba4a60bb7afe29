"""Upkeep that is interrupted at random moments: while planning, while Spark starts, while jobs run, while it ends.

CI runs one round, `make soak` a third of its rounds: each starts Spark twice. The seed is
printed where something fails, and `--seed` repeats it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest

from tests.small_lake import SmallLake

pytestmark = [pytest.mark.slow, pytest.mark.rounds, pytest.mark.spark, pytest.mark.own_processes]

LONGEST = 14.0
COMMAND = ("compaction", "compact", "sales.*", "--rewrite-all", "--apply")


def test_an_interrupt_at_a_random_moment_pauses_or_comes_too_late(lake: SmallLake, pytestconfig: pytest.Config) -> None:
    rounds, seed = max(1, int(pytestconfig.getoption("rounds")) // 3), int(pytestconfig.getoption("seed"))
    chance = random.Random(seed)
    for name in ("sales.a", "sales.b"):
        lake.create(name, appends=2)
    for number in range(rounds):
        moment, presses = chance.uniform(0.3, LONGEST), chance.choice([1, 1, 2])
        why = f"round {number} of seed {seed}: {presses} after {moment:.2f} s"
        for name in ("sales.a", "sales.b"):
            lake.append(name)
        before = len(lake.warden.operation.list(limit=1000))
        process = subprocess.Popen(
            lake.command(*COMMAND), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        time.sleep(moment)
        for _ in range(presses):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=120)

        rows = lake.warden.operation.list(limit=1000)
        assert "Traceback" not in err, f"{why}\n{err}"
        if process.returncode == -signal.SIGINT or len(rows) == before:  # nothing had begun
            assert len(rows) == before, f"{why}\n{err}"
            continue
        state = rows[0].state
        assert (process.returncode, state) in [(0, "done"), (1, "paused"), (1, "done")], f"{why}\n{err}"
        if state == "paused":
            assert f"lakewarden operation resume {rows[0].id}" in err, f"{why}\n{err}"
            lake.run("operation", "resume", rows[0].id)
            assert lake.warden.operation.list(limit=1)[0].state == "done", why
        assert lake.ids("sales.a") == lake.ids("sales.b") == list(range(2 * (number + 3))), why
        assert lake.warden.ground.leases.held() == [], why
