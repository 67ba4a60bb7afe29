"""`sequence maintain` killed at every step: the next run completes it, and no row is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import killing
from tests.features.sequence.history import create, partitions
from tests.services.mariadb import Shop
from tests.small_lake import SmallLake

OWN_POINTS = ("sequence.altering", "sequence.altered", "action.applied")


@pytest.fixture
def lake(tmp_path: Path, shop: Shop) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        file = lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(file.read_text())
        settings["sequences"] = {"dburl": shop.dburl, "num_empty": 3, "tables": {"orders": {}}}
        file.write_text(yaml.safe_dump(settings))
        yield lake


def prepare(shop: Shop) -> None:
    """A table that needs two statements: the names of its empty partitions are wrong."""
    shop.run("DROP TABLE IF EXISTS orders")
    create(shop, empty=2, early=lambda number: 25 if number == 11 else 0)
    tail = partitions(shop)[-1][0]
    shop.run(f"ALTER TABLE orders REORGANIZE PARTITION {tail} INTO (PARTITION p_20990101 VALUES LESS THAN MAXVALUE)")


def test_the_next_run_completes_it(lake: SmallLake, shop: Shop, tmp_path: Path, soaking: bool) -> None:
    trace = tmp_path / "trace"
    prepare(shop)
    killing.run(lake, "sequence", "maintain", failpoints=f"trace:{trace}")
    points, bounds = trace.read_text().split(), [bound for _, bound in partitions(shop)]
    assert points.count("sequence.altered") == 2
    for number, point in enumerate(points, start=1):
        if not soaking and (point not in OWN_POINTS or point in points[: number - 1]):
            continue
        prepare(shop)
        rows = shop.run("SELECT COUNT(*), SUM(id) FROM orders")
        killing.kill(lake, number, point, "sequence", "maintain")
        killing.bury(lake)
        killing.run(lake, "sequence", "maintain")
        killing.run(lake, "sequence", "maintain", "--check")  # exit code 0: nothing is left to do
        assert [bound for _, bound in partitions(shop)] == bounds, point
        assert shop.run("SELECT COUNT(*), SUM(id) FROM orders") == rows


def test_or_the_operation_is_resumed(lake: SmallLake, shop: Shop) -> None:
    prepare(shop)
    killing.kill(lake, "sequence.altered", "sequence.altered", "sequence", "maintain")
    killing.bury(lake)
    assert "done" in killing.run(lake, "operation", "resume")
    killing.run(lake, "sequence", "maintain", "--check")
