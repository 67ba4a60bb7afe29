"""Archiving, dropping and restoring partitions, killed again and again at random moments: no row is ever nowhere.

`make soak` runs thirty rounds by default; `ROUNDS=50` kills fifty times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import killing
from tests.features.sequence.old_orders import OldOrders
from tests.services.mariadb import MariaDb
from tests.small_lake import SmallLake

PARTITIONS, ROWS = 40, 25
IDS = list(range(1, PARTITIONS * ROWS + 50))
VERBS = ("archive", "drop", "drop", "restore")
MOST_POINTS = 40
"""Killed before it has passed so many, an operation does a few partitions."""


@pytest.fixture
def orders(tmp_path: Path, mariadb: MariaDb) -> Iterator[OldOrders]:
    with SmallLake(tmp_path / "lake") as lake:
        orders = OldOrders(lake, mariadb.new_database(), grace="0s")
        bounds = [
            f"PARTITION p_{2026 + place // 12}{place % 12 + 1:02d}01 VALUES LESS THAN ({(place + 1) * ROWS})"
            for place in range(PARTITIONS)
        ]
        orders.shop.run(
            "DELETE FROM orders",
            "ALTER TABLE orders PARTITION BY RANGE (id) "
            f"({', '.join(bounds)}, PARTITION p_20991231 VALUES LESS THAN MAXVALUE)",
            "INSERT INTO orders (id, ordered, customer, amount) SELECT seq, '2026-01-01' + INTERVAL seq HOUR, seq, seq "
            f"FROM seq_1_to_{IDS[-1]}",
        )
        yield orders


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.rounds
def test_killed_at_random_moments(orders: OldOrders, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, killed, trace = random.Random(seed), 0, tmp_path / "trace"
    for number in range(rounds):
        about = f"round {number} of seed {seed}"
        verbs = [verb for verb in VERBS if not getattr(orders.warden.sequence, verb)().is_empty]
        if not verbs:
            break  # everything is dropped
        killed += killing.at_a_moment(
            orders.lake, trace, chance, MOST_POINTS, "sequence", chance.choice(verbs), "--apply"
        )
        assert orders.all_ids() == IDS, about
        archived = [int(row["id"]) for row in orders.archived()] if has_archive(orders) else []
        assert len(archived) == len(set(archived)), about
        killing.bury(orders.lake)
    assert killed > rounds / 2
    finish(orders)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.soak
def test_dropping_is_killed_at_every_step(orders: OldOrders, tmp_path: Path) -> None:
    orders.warden.sequence.archive().apply()
    orders.warden.sequence.drop().apply()
    names, trace = iter(orders.partitions()), tmp_path / "trace"
    command = ("sequence", "drop", "--apply", "--partition")
    killing.run(orders.lake, *command, next(names), failpoints=f"trace:{trace}")
    points = trace.read_text().split()
    assert {"sequence.compared", "sequence.removed"} < {*points} and len(points) < PARTITIONS
    for number, point in enumerate(points, start=1):
        name = next(names)
        killing.kill(orders.lake, number, point, *command, name)
        killing.bury(orders.lake)
        assert orders.all_ids() == IDS, point
        orders.warden.sequence.drop(partition=[name]).apply()
        assert name not in orders.partitions() and f"orders__{name}" not in orders.tables(), point
    finish(orders)


def finish(orders: OldOrders) -> None:
    """Everything that is past retention is archived and dropped by the next runs."""
    for operation in ("archive", "drop", "drop"):
        getattr(orders.warden.sequence, operation)().apply()
    assert orders.all_ids() == IDS
    assert orders.tables() == ["orders"] and orders.partitions() == ["p_20991231"]
    assert [int(row["id"]) for row in orders.archived()] == [id for id in IDS if id < PARTITIONS * ROWS]


def has_archive(orders: OldOrders) -> bool:
    return bool(orders.lake.catalog.table_exists("archive.orders"))
