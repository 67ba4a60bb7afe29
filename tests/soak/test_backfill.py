"""A backfill killed again and again, at random moments, and without its control database: each row is there once.

`make soak` runs thirty rounds by default; `ROUNDS=50` kills fifty times.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.backfill.shop import Shop
from tests.small_lake import SmallLake

BATCHES = 200


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        yield Shop(lake)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.rounds
@pytest.mark.parametrize("mode", ["direct", "branch"])
def test_killed_at_random_moments(shop: Shop, pytestconfig: pytest.Config, mode: str) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    rounds = rounds if mode == "direct" else max(1, rounds // 3)
    chance, ids = random.Random(seed), list(range(BATCHES * 5))
    shuffled = ids[:]
    chance.shuffle(shuffled)
    for start in range(0, len(ids), 100):
        shop.order(*shuffled[start : start + 100])
    shop.register(batch_size=5, mode=mode)
    lost = {rounds // 3, 2 * rounds // 3}
    killed = 0
    for number in range(rounds):
        process = shop.lake.start("backfill", "run", "--database", "shop", "--version", "3", "--max-batches", "60")
        time.sleep(chance.uniform(4, 20))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        if number in lost:
            shop.lose_control_database()
        there = shop.ids()
        assert len(there) == len(set(there)), f"round {number} of seed {seed}"
        assert there == ids[: len(there)]  # whole batches, in their order
        assert mode == "direct" or there in ([], ids)
        time.sleep(2)  # until the leases of the dead have expired
    assert killed > 0
    shop.run()
    assert (shop.ids(), shop.status().status) == (ids, "completed")
