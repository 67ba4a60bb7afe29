"""`sequence convert`, with what `sequence record` wrote. Covers `features/sequence/conversion.py`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.errors import BadValue
from tests.features.sequence.history import NOW, partitions
from tests.services.mariadb import Shop


def test_a_table_that_is_not_partitioned(shop: Shop, install: Any, tmp_path: Path) -> None:
    shop.run("CREATE TABLE orders (id BIGINT PRIMARY KEY)", "INSERT INTO orders SELECT seq FROM seq_1_to_500")
    warden, file = install(), tmp_path / "positions.yaml"
    warden.ground.clock = lambda: NOW
    assert warden.sequence.record(file, assume_partitioned_on=["id"]).tables == 1
    assert file.read_text() == f'time: {NOW.isoformat(" ")}\ntables:\n  "orders":\n    "id": 500\n'
    shop.run("INSERT INTO orders SELECT seq FROM seq_501_to_600")
    warden.ground.clock = lambda: NOW + timedelta(days=1)
    (found,) = warden.sequence.convert(file, assume_partitioned_on=["id"])
    assert found.sql == (
        f"ALTER TABLE `{shop.name}`.`orders` WAIT 1 PARTITION BY RANGE (`id`) ("
        "PARTITION `p_start` VALUES LESS THAN (608), PARTITION `p_20261117` VALUES LESS THAN (3608), "
        "PARTITION `p_20261217` VALUES LESS THAN MAXVALUE);"
    )
    assert "copies about" in found.warning
    shop.run(found.sql)
    assert warden.sequence.maintain().is_empty


def test_a_table_without_an_empty_partition(shop: Shop, install: Any, tmp_path: Path) -> None:
    """By a file that the tool of today wrote."""
    shop.run(
        "CREATE TABLE orders (a INT, b INT, PRIMARY KEY (a, b)) PARTITION BY RANGE COLUMNS (a, b) ("
        "PARTITION p_20260101 VALUES LESS THAN (10, 10), PARTITION p_20270101 VALUES LESS THAN (MAXVALUE, MAXVALUE))",
        "INSERT INTO orders VALUES (1, 1), (400, 800)",
    )
    file = tmp_path / "state.yaml"
    file.write_text(f"tables:\n  orders: {{a: 300, b: 600}}\n  other: {{id: 1}}\ntime: {NOW - timedelta(days=10)}\n")
    warden = install()
    warden.ground.clock = lambda: NOW
    (found,) = warden.sequence.convert(file)
    assert found.sql == (
        f"ALTER TABLE `{shop.name}`.`orders` WAIT 1 REORGANIZE PARTITION `p_20270101` INTO ("
        "PARTITION `p_20270101` VALUES LESS THAN (401, 802), PARTITION `p_20270102` VALUES LESS THAN (701, 1402), "
        "PARTITION `p_20270103` VALUES LESS THAN (MAXVALUE, MAXVALUE));"
    )
    shop.run(found.sql)
    assert len(partitions(shop)) == 4


def test_what_does_not_fit(shop: Shop, install: Any, tmp_path: Path) -> None:
    shop.run("CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (5)")
    warden, file = install(), tmp_path / "positions.yaml"
    warden.ground.clock = lambda: NOW
    file.write_text(f"tables: {{orders: {{id: 5}}}}\ntime: {NOW - timedelta(days=1)}\n")
    assert "is not partitioned" in warden.sequence.convert(file)[0].problem
    assert "has not grown" in warden.sequence.convert(file, assume_partitioned_on=["id"])[0].problem
    assert "has no column x" in warden.sequence.convert(file, assume_partitioned_on=["x"])[0].problem
    file.write_text("other: 1")
    with pytest.raises(BadValue, match="was not written by sequence record"):
        warden.sequence.convert(file)
