"""A backfill killed again and again while it runs, and without its control database: each row is there once.

`make soak` kills it thirty times by default; `ROUNDS=50` kills it fifty times. Few batches are published between two
kills, so that the last one still hits an unfinished backfill.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.backfill.shop import Shop
from tests.killing import bury, until_passed
from tests.small_lake import SmallLake

BATCHES, SIZE = 200, 5
BEGUN, POINTS = 10, 8  # steps that a run passes before its first batch, and for each batch
RUN = ("backfill", "run", "--database", "shop", "--version", "3")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        yield Shop(lake)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.rounds
@pytest.mark.parametrize("mode", ["direct", "branch"])
def test_killed_at_random_moments(shop: Shop, tmp_path: Path, pytestconfig: pytest.Config, mode: str) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    rounds = rounds if mode == "direct" else max(2, rounds // 3)
    chance, ids = random.Random(seed), list(range(BATCHES * SIZE))
    shuffled = ids[:]
    chance.shuffle(shuffled)
    for start in range(0, len(ids), 100):
        shop.order(*shuffled[start : start + 100])
    shop.register(batch_size=SIZE, mode=mode)
    most = max(1, min(BATCHES // rounds, 30))  # batches between two kills; about half of them on average
    hit, lost = 0, 0
    for number in range(rounds):
        why, trace = f"round {number} of seed {seed}", tmp_path / f"trace-{number}"
        process = shop.lake.start(*RUN, failpoints=f"trace:{trace}")
        until_passed(process, trace, chance.randint(3, BEGUN + POINTS * most))
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        is_running = process.returncode == -signal.SIGKILL and "operation.running" in trace.read_text()
        is_unfinished = shop.status().status != "completed"
        assert is_running or not is_unfinished, f"{why}: {said}"
        hit += is_running and is_unfinished
        there = shop.ids()
        assert there == ids[: len(there)], why  # whole batches in their order, each row once
        assert mode == "direct" or there in ([], ids), why
        if number in (rounds // 3, 2 * rounds // 3):
            lost += is_unfinished
            shop.lose_control_database()
        bury(shop.lake)
    assert hit >= 0.9 * rounds and lost == 2, f"seed {seed}: {hit} of {rounds} kills hit it, {lost} databases lost"
    shop.run()
    assert (shop.ids(), shop.status().status) == (ids, "completed")
