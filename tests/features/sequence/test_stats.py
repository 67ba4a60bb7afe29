"""`sequence stats`. Covers `features/sequence/statistics.py`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.doors.cli.main import run
from tests.features.sequence.history import NOW, RATE, create, partitions
from tests.services.mariadb import Shop

QUERY = "SELECT UNIX_TIMESTAMP(created) FROM orders WHERE id > ? ORDER BY id ASC LIMIT 1;"


def test_figures_of_a_table(shop: Shop, install: Any, tmp_path: Path) -> None:
    create(shop, empty=2)
    warden = install(prometheus_stats="stats.prom", tables={"orders": {"retention": {"days": 90}}})
    warden.ground.clock = lambda: NOW
    (found,) = warden.sequence.stats()
    assert (found.table, found.partitions) == ("orders", len(partitions(shop))) and found.retention == timedelta(
        days=90
    )
    assert found.time_since_newest_partition.days == -45
    assert found.time_since_oldest_partition.days == 315  # p_start has no date
    assert found.mean_partition_delta.days == 30 and found.max_partition_delta.days == 30
    assert found.ids_per_day == pytest.approx(RATE, rel=0.01)
    assert found.time_until_overrun.days == pytest.approx(45, abs=1)
    assert 'partition_total{table="orders"} 14' in (tmp_path / "stats.prom").read_text()


def test_the_oldest_row_is_looked_up(shop: Shop, install: Any) -> None:
    create(shop)
    warden = install(tables={"orders": {"earliest_utc_timestamp_query": QUERY}})
    warden.ground.clock = lambda: NOW
    (found,) = warden.sequence.stats()
    assert found.time_since_oldest_partition == pytest.approx(timedelta(days=315), abs=timedelta(days=1))


def test_a_table_that_cannot_be_maintained(shop: Shop, install: Any, tmp_path: Path, capsys: Any) -> None:
    """It is named with its problem; a replica has figures too."""
    create(shop)
    shop.run("CREATE TABLE plain (id INT)", "SET GLOBAL read_only = 1")
    try:
        install(tables={"orders": {}, "plain": {}})
        assert run(["--config", str(tmp_path), "sequence", "stats"]) == 3
        said = capsys.readouterr().out
        assert "is not partitioned" in said and "orders" in said
    finally:
        shop.run("SET GLOBAL read_only = 0")
