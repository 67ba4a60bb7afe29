"""`sequence maintain` killed at random moments: the next run completes, and no row is lost."""

from __future__ import annotations

import random
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
    chance, killed, trace = random.Random(seed), 0, tmp_path / "trace"
    prepare(shop)
    lake.start("sequence", "maintain", failpoints=f"trace:{trace}").communicate()
    points, bounds = len(trace.read_text().split()), [bound for _, bound in partitions(shop)]
    for number in range(rounds):
        prepare(shop)
        rows = shop.run("SELECT COUNT(*), SUM(id) FROM orders")
        killed += killing.at_a_moment(lake, trace, chance, points, "sequence", "maintain")
        killing.bury(lake)
        killing.run(lake, "sequence", "maintain")
        killing.run(lake, "sequence", "maintain", "--check")
        assert [bound for _, bound in partitions(shop)] == bounds, f"round {number} of seed {seed}"
        assert shop.run("SELECT COUNT(*), SUM(id) FROM orders") == rows, f"round {number} of seed {seed}"
    assert killed > rounds / 2
