"""Partitions as a real server describes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden.config import SequenceSettings
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import Partition, has_rows, is_empty, position_of, read_table
from tests.services.mariadb import Shop


@pytest.fixture
def db(sequences: SequenceSettings) -> Iterator[Reading]:
    with Reading(sequences) as reading:
        yield reading


def test_over_one_column(db: Reading, shop: Shop) -> None:
    shop.run(
        "CREATE TABLE `odd``name` (`the id` BIGINT UNSIGNED PRIMARY KEY) PARTITION BY RANGE (`the id`) ("
        "PARTITION p_start VALUES LESS THAN (100), PARTITION `p_20260101` VALUES LESS THAN (4611686018427387904), "
        "PARTITION `p``x` VALUES LESS THAN MAXVALUE)",
        "INSERT INTO `odd``name` VALUES (7), (100)",
    )
    table = read_table(db, "odd`name")
    assert (table.columns, table.server, str(table)) == (("the id",), db.server, f"{shop.name}.odd`name")
    assert table.partitions == (
        Partition("p_start", (100,)),
        Partition("p_20260101", (4611686018427387904,)),
        Partition("p`x", None),
    )
    assert [table.lower_bound(each) for each in table.partitions] == [None, (100,), (4611686018427387904,)]
    assert position_of(db, table) == (100,)
    assert [is_empty(db, table, each.name) for each in table.partitions] == [False, False, True]


def test_over_several_columns(db: Reading, shop: Shop) -> None:
    shop.run(
        "CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (a, b)) PARTITION BY RANGE COLUMNS (a, b) ("
        "PARTITION p0 VALUES LESS THAN (10, 200), PARTITION p1 VALUES LESS THAN (MAXVALUE, MAXVALUE))",
        "INSERT INTO pairs VALUES (9, 999), (10, 5), (10, 199)",
    )
    table = read_table(db, "pairs")
    assert table.columns == ("a", "b")
    assert table.partitions == (Partition("p0", (10, 200)), Partition("p1", None))
    assert position_of(db, table) == (10, 199)
    assert [is_empty(db, table, "p0"), is_empty(db, table, "p1")] == [False, True]
    ranges = (((9, 999), (10, 0)), ((10, 0), (10, 6)), ((10, 6), (10, 199)), ((10, 199), None), (None, (9, 999)))
    assert [has_rows(db, table, *each) for each in ranges] == [True, True, False, True, False]
    assert has_rows(db, table, None, None, "p0") and not has_rows(db, table, None, None, "p1")


def test_bounds_that_the_server_describes_wrongly(db: Reading, shop: Shop) -> None:
    shop.run(
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10), "
        "PARTITION q VALUES LESS THAN (18446744073709551614), PARTITION r VALUES LESS THAN MAXVALUE)"
    )
    with pytest.raises(UnfitDatabase, match="bounds that do not grow"):
        read_table(db, "t")


def test_without_rows(db: Reading, shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)")
    assert position_of(db, read_table(db, "t")) is None


@pytest.mark.parametrize(
    ("partitioning", "reason"),
    [
        ("", "is not partitioned"),
        ("PARTITION BY HASH (id) PARTITIONS 2", r"partitioned by HASH \(`id`\)"),
        ("PARTITION BY RANGE (id + 1) (PARTITION p VALUES LESS THAN MAXVALUE)", r"partitioned by RANGE \(`id` \+ 1\)"),
        ("PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10))", "no partition for MAXVALUE"),
        (
            "PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p VALUES LESS THAN MAXVALUE)",
            "has subpartitions",
        ),
        (
            "PARTITION BY RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('2026-01-01'))",
            "d of .* is date: it cannot be partitioned by that",
        ),
        (
            "PARTITION BY RANGE COLUMNS (name) (PARTITION p VALUES LESS THAN MAXVALUE)",
            "name of .* is varchar: it cannot",
        ),
    ],
)
def test_malformed_tables(shop: Shop, partitioning: str, reason: str) -> None:
    shop.run(f"CREATE TABLE t (id INT, d DATE, name VARCHAR(9), PRIMARY KEY (id, d, name)) {partitioning}")
    with Reading(SequenceSettings.model_validate({"dburl": shop.dburl})) as db:
        with pytest.raises(UnfitDatabase, match=reason):
            read_table(db, "t")
        with pytest.raises(UnfitDatabase, match=f"no table {shop.name}.x"):
            read_table(db, "x")
