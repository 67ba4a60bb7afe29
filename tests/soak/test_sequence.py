"""`sequence maintain` killed at random moments: the next run completes, and no row is lost."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests import killing
from tests.features.sequence.conftest import shop
from tests.features.sequence.history import partitions
from tests.features.sequence.test_kills import lake, prepare
from tests.services.mariadb import Shop
from tests.small_lake import SmallLake

__all__ = ["lake", "shop"]
pytestmark = [pytest.mark.slow, pytest.mark.rounds]


def test_killed_at_a_random_moment(lake: SmallLake, shop: Shop, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, killed = random.Random(seed), 0
    prepare(shop)
    began = time.monotonic()
    lake.start("sequence", "maintain").communicate()
    usual, bounds = time.monotonic() - began, [bound for _, bound in partitions(shop)]
    for number in range(rounds):
        prepare(shop)
        rows = shop.run("SELECT COUNT(*), SUM(id) FROM orders")
        process = lake.start("sequence", "maintain")
        time.sleep(chance.uniform(0.3, 1.0) * usual)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.communicate()
        killing.bury(lake)
        killing.run(lake, "sequence", "maintain")
        killing.run(lake, "sequence", "maintain", "--check")
        assert [bound for _, bound in partitions(shop)] == bounds, f"round {number} of seed {seed}"
        assert shop.run("SELECT COUNT(*), SUM(id) FROM orders") == rows, f"round {number} of seed {seed}"
    assert killed
