"""Values of every type go to the archive, to a reader and into checksums as one text.

Covers `features/sequence/checksums.py` and `features/sequence/pieces.py` too.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.config import SequenceSettings
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence import checksums
from lakewarden.features.sequence.checksums import in_database, in_lake
from lakewarden.features.sequence.columns import as_texts, columns_of
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.everywhere import everywhere
from lakewarden.features.sequence.partitions import read_table
from lakewarden.features.sequence.session import Row
from tests.examples import examples
from tests.features.sequence.old_orders import OldOrders
from tests.services.mariadb import MariaDb, Shop
from tests.small_lake import SmallLake

TYPES = {
    "tiny": ("TINYINT", -128),
    "utiny": ("TINYINT UNSIGNED", 255),
    "small": ("SMALLINT", -32768),
    "medium": ("MEDIUMINT UNSIGNED", 16777215),
    "i": ("INT", -(2**31)),
    "ui": ("INT UNSIGNED ZEROFILL", 42),
    "big": ("BIGINT", -(2**63)),
    "ubig": ("BIGINT UNSIGNED", Decimal(2**64 - 1)),
    "flag": ("TINYINT(1)", 2),
    "year": ("YEAR", 2026),
    "bits": ("BIT(5)", 21),
    "allbits": ("BIT(64)", Decimal(2**64 - 1)),
    "money": ("DECIMAL(20,4)", Decimal("-1234567890123456.7890")),
    "fine": ("DECIMAL(38,30)", Decimal("0.000000000000000000000000000001")),
    "real4": ("FLOAT", 0.10000000149011612),
    "real8": ("DOUBLE", 1.2345678901234568e-300),
    "day": ("DATE", date(1582, 10, 10)),
    "at": ("DATETIME(6)", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    "whole": ("DATETIME", datetime(2026, 3, 29, 2, 30)),
    "stamp": ("TIMESTAMP(3) NULL", datetime(2026, 3, 29, 1, 30, 0, 123000, UTC)),
    "span": ("TIME(6)", "-838:59:59.000001"),
    "fixed": ("CHAR(5)", "ab"),
    "words": ("TEXT", "naïve 🎉 'quoted' \\ \n\t\x01"),
    "latin": ("VARCHAR(9) CHARACTER SET latin1", "ÿé"),
    "choice": ("ENUM('x', 'yé')", "yé"),
    "choices": ("SET('p', 'q')", "p,q"),
    "doc": ("JSON", '{"a": [1, 2.0, null], "b": "\\u00e9"}'),
    "bytes4": ("BINARY(4)", b"x\0\0\0"),
    "bytes": ("VARBINARY(20)", b"\x00\xff'\\"),
    "blob_": ("LONGBLOB", b"\xde\xad" * 1000),
    "uid": ("UUID", "123e4567-e89b-12d3-a456-426614174000"),
    "ip": ("INET6", "2001:db8::1"),
    "odd `name": ("INT", 7),
    "made": ("INT GENERATED ALWAYS AS (tiny + 1) STORED", -127),
}
WRITTEN = {name: value for name, (_, value) in TYPES.items() if name != "made"}


def create(shop: Shop) -> None:
    columns = ", ".join(f"`{name.replace('`', '``')}` {type}" for name, (type, _) in TYPES.items())
    shop.run(
        f"CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, {columns}) DEFAULT CHARSET utf8mb4 "
        "PARTITION BY RANGE (id) (PARTITION p_20260101 VALUES LESS THAN (100), PARTITION p_20260201 VALUES LESS THAN "
        "(200), PARTITION p_20991231 VALUES LESS THAN MAXVALUE)"
    )
    names = ", ".join(f"`{name.replace('`', '``')}`" for name in WRITTEN)
    values = [int(value) if isinstance(value, Decimal) and value > 2**60 else value for value in WRITTEN.values()]
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute(f"INSERT INTO orders (id, {names}) VALUES (1, {', '.join(['%s'] * len(values))})", values)
        cursor.execute("INSERT INTO orders (id) VALUES (2)")
        cursor.execute("INSERT INTO orders (id, day, at, stamp) VALUES (3, '0000-00-00', '2020-02-31 01:02:03', 0)")
        cursor.execute("INSERT INTO orders (id) VALUES (150), (250)")


def check(rows: list[dict[str, Any]]) -> None:
    first, second, third = rows[:3]
    expected = {name: value for name, (_, value) in TYPES.items()}
    assert {name: first[name] for name in expected} == expected
    assert [name for name in expected if second[name] is not None] == []
    assert [third[name] for name in ("day", "at", "stamp")] == [None] * 3
    said = "day=0000-00-00, at=2020-02-31 01:02:03.000000, stamp=0000-00-00 00:00:00.000"
    assert [row["lakewarden_invalid_dates"] for row in rows[:3]] == [None, None, said]


@pytest.mark.spark
def test_every_type_is_the_same_in_the_archive_and_read_from_the_database(lake: SmallLake, shop: Shop) -> None:
    create(shop)
    orders = OldOrders.__new__(OldOrders)
    orders.lake, orders.shop = lake, shop
    orders.configure(table={"earliest_utc_timestamp_query": None})
    check(sorted(orders.warden.sequence.read(), key=lambda row: int(row["id"])))
    orders.warden.sequence.archive(partition=["p_20260101"]).apply()
    check(orders.archived())


def test_any_changed_value_is_noticed(mariadb: MariaDb, lake: SmallLake) -> None:
    shop = mariadb.new_database()
    create(shop)
    settings = SequenceSettings.model_validate({"dburl": shop.dburl})
    with Reading(settings) as connection:
        table = read_table(connection, "orders")
        columns = columns_of(connection, "orders")
        with everywhere(lake.warden.ground, settings, "orders") as (_, found):
            archived = in_lake(found, table.columns, columns)

        before = in_database(connection, "orders", table.columns, columns)
        assert before.differences(archived) == "" and before.rows == 5

        def differences() -> str:
            nonlocal before
            now = in_database(connection, "orders", table.columns, columns)
            differs, before = now.differences(before), now
            return differs

        for name in WRITTEN:
            shop.run(f"UPDATE orders SET `{name.replace('`', '``')}` = NULL WHERE id = 1")
            assert differences() == f"values of {name}{', made' if name == 'tiny' else ''}", name
        shop.run("UPDATE orders SET i = 5 WHERE id = 150", "UPDATE orders SET i = 6 WHERE id = 250")
        assert differences() == "values of i"
        shop.run("UPDATE orders SET i = 11 - i WHERE id IN (150, 250)")
        assert differences() == "values of i"
        shop.run("DELETE FROM orders WHERE id = 250")
        assert differences() == "4 rows against 5"


@pytest.mark.parametrize("source", ["orders", "orders PARTITION (p_20260201)"])
def test_checksums_are_computed_in_pieces_between_which_others_alter_the_table(
    orders: OldOrders, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(checksums, "_FIRST_ROWS", 7)
    monkeypatch.setattr(checksums, "_SECONDS", None)  # all of one size

    class Watched(Reading):
        def rows(self, sql: str) -> list[Row]:
            orders.shop.run(f"ALTER TABLE orders NOWAIT COMMENT = '{len(counted)}'")
            found = super().rows(sql)
            counted.extend(int(str(row["counted"])) for row in found if "counted" in row)
            return found

    counted: list[int] = []
    with Watched(SequenceSettings.model_validate({"dburl": orders.shop.dburl})) as connection:
        table, columns = read_table(connection, "orders"), columns_of(connection, "orders")
        pieces = in_database(connection, source, table.columns, columns)
        assert max(counted) <= 7 + 1 and sum(counted) == pieces.rows == (349 if source == "orders" else 100)
        monkeypatch.setattr(checksums, "_FIRST_ROWS", 1000)
        assert in_database(connection, source, table.columns, columns) == pieces
        assert counted[-1] == pieces.rows


REFUSED = {"odd DECIMAL(40,2)": "odd is decimal\\(40,2\\)", "Lakewarden_Partition INT": "a name that the archive uses"}


@pytest.mark.parametrize(("column", "why"), REFUSED.items())
def test_a_column_that_the_archive_cannot_have_is_refused(shop: Shop, column: str, why: str) -> None:
    shop.run(
        f"CREATE TABLE orders (id INT PRIMARY KEY, {column}) PARTITION BY RANGE (id) "
        "(PARTITION p VALUES LESS THAN MAXVALUE)"
    )
    settings = SequenceSettings.model_validate({"dburl": shop.dburl})
    with Reading(settings) as connection, pytest.raises(UnfitDatabase, match=f"cannot be archived: .*{why}"):
        columns_of(connection, "orders")


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
@examples(20)
def test_doubles_are_written_as_mariadb_writes_them(mariadb: MariaDb, values: list[float]) -> None:
    import pyarrow as pa

    shop = mariadb.new_database()
    some = [*values, 1e14, 1e15, 1e-14, 1e-15, 1234567890123456.7, 0.1, -0.0, 5e-324]
    shop.run("CREATE TABLE doubles (place INT PRIMARY KEY, value DOUBLE)")
    shop.run(f"INSERT INTO doubles VALUES {', '.join(f'({place}, {value!r})' for place, value in enumerate(some))}")
    found = [row[0] for row in shop.run("SELECT CAST(value AS CHAR) FROM doubles ORDER BY place")]
    assert found == as_texts(pa.array(some, pa.float64()), "double")
