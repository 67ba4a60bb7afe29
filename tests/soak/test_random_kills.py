"""Processes killed at random moments, again and again, on one lake: what resume makes of it (invariant 6).

CI runs two rounds; `make soak` runs thirty. The seed is printed, and `--seed` repeats a run's choices.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_lake import SmallLake

TABLES = tuple(f"sales.t{number}" for number in range(5))


@pytest.fixture
def busy(tmp_path: Path, state_url: str) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake", state_url, lease_timeout="2s") as lake:
        for name in TABLES:
            lake.create(name, appends=2)
        yield lake


@pytest.mark.slow
@pytest.mark.rounds
def test_killed_at_a_random_moment(busy: SmallLake, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance = random.Random(seed)
    expected: dict[str, dict[str, int]] = {name: {} for name in TABLES}  # the model: every ref but main
    killed = 0
    for number in range(rounds):
        tag, why = f"r{number}", f"round {number} of seed {seed}"
        heads = {name: busy.head(name) for name in TABLES}
        process = busy.start("version", "tag", "sales.*", tag)
        time.sleep(chance.uniform(0.4, 1.8))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        if chance.random() < 0.5:  # the world goes on before anybody resumes
            busy.append(chance.choice(TABLES))
        busy.run("operation", "resume", "--wait", "20s")

        refs = {name: busy.refs(name) for name in TABLES}
        states = {row.state for row in busy.warden.operation.list(limit=1000)}
        assert states <= {"done"}, why
        with_tag = [name for name in TABLES if tag in refs[name]]
        assert with_tag in ([], list(TABLES)), why  # it had not begun, or it is whole
        for name in with_tag:
            expected[name][tag] = heads[name]
        assert {name: {r: at for r, at in refs[name].items() if r != "main"} for name in TABLES} == expected, why
    assert killed > 0
    for name in TABLES:
        table = busy.catalog.load_table(name)
        assert len(busy.ids(name)) == int(table.current_snapshot().summary["total-records"])
