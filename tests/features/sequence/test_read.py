"""`sequence read` on a real server. Covers `features/sequence/everywhere.py` and `features/sequence/hidden.py`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakewarden.errors import BadValue, Conflict, LakewardenError
from lakewarden.features.sequence import everywhere
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.target import sequences_of
from tests.features.sequence.old_orders import EVERY, OldOrders
from tests.services.mariadb import MariaDb


def test_hot_rows_are_read_in_pieces(orders: OldOrders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everywhere, "_ROWS_AT_ONCE", 100)
    found = orders.warden.sequence.read(limit=5)
    assert [int(row["id"]) for row in found] == [1, 2, 3, 4, 5] and found.cut
    written = orders.warden.sequence.read(out=str(tmp_path / "rows.parquet"))
    assert written.rows_read == 349
    assert [int(id) for id in pq.read_table(tmp_path / "rows.parquet")["id"].to_pylist()] == EVERY


def test_one_table_is_read(orders: OldOrders) -> None:
    orders.configure(tables={"orders": {}, "others": {}})
    with pytest.raises(BadValue, match="more than one table"):
        orders.warden.sequence.read()
    assert len(orders.warden.sequence.read(table=["orders"])) == 349


def test_partitions_are_altered_while_rows_are_read(orders: OldOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pieces nothing is locked; if rows were moved, the rest is not read from where it no longer is."""
    monkeypatch.setattr(everywhere, "_ROWS_AT_ONCE", 50)
    ground = orders.warden.ground
    sequences = sequences_of(ground.settings, None)
    with everywhere.everywhere(ground, sequences, "orders") as (_, batches):
        found = next(batches)["id"].to_pylist()
        orders.shop.run(
            "ALTER TABLE orders NOWAIT REORGANIZE PARTITION p_20991231 INTO (PARTITION p_20990101 VALUES LESS THAN "
            "(1000), PARTITION p_20991231 VALUES LESS THAN MAXVALUE)"
        )
        assert [*map(int, found), *(int(id) for batch in batches for id in batch["id"].to_pylist())] == EVERY
    with everywhere.everywhere(ground, sequences, "orders") as (_, batches):
        next(batches)
        orders.warden.sequence.drop(without_archive=True, partition=["p_20260201"]).apply()
        with pytest.raises(Conflict, match="were moved while its rows were read"):
            next(batches)


@pytest.mark.parametrize("way", ["dburl", "mariadb"])
def test_texts_are_read_as_they_are(orders: OldOrders, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the command line client, in a locale that knows none of them."""
    monkeypatch.setenv("LC_ALL", "C")
    text = "naïve \U0001f389 \r\n\t <&> \x00\x01\x1f ?"
    with orders.shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE orders ADD `größe` VARCHAR(9) DEFAULT 'ß'")
        cursor.execute("UPDATE orders SET note = %s WHERE id = 7", (text,))
    orders.configure(**{"dburl": None, way: orders.shop.dburl if way == "dburl" else orders.shop.client})
    rows = {int(row["id"]): row for row in orders.warden.sequence.read()}
    assert (rows[7]["note"], rows[7]["größe"], rows[9]["note"]) == (text, "ß", None)
    with Reading(sequences_of(orders.warden.ground.settings, None)) as connection:
        for id in (7, 9):  # in statements too
            assert connection.rows(f"SELECT id FROM orders WHERE id = {id} AND `größe` = 'ß'") == [{"id": str(id)}]
        with pytest.raises(LakewardenError, match="cannot carry") if way == "mariadb" else nullcontext():
            connection.rows("SELECT note FROM orders WHERE id = 7")
        assert connection.rows("SELECT id FROM orders WHERE id = 9") == [{"id": "9"}]


@pytest.mark.spark
def test_each_row_is_read_once_wherever_it_is(archived: OldOrders) -> None:
    """Hot and archived, detached and archived, only archived; and a column that came later."""
    orders = archived
    orders.configure(grace="0s")
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.warden.sequence.drop(partition=["p_20260201"]).apply()
    assert orders.tables() == ["orders", "orders__p_20260201"] and orders.ids() == list(range(200, 350))
    rows = {int(row["id"]): row for row in orders.warden.sequence.read()}
    assert orders.all_ids() == EVERY == sorted(rows)
    assert rows[10] == {**rows[10], "customer": "customer 10", "cents": 1250, "note": "Ünï 10"}
    orders.shop.run("ALTER TABLE orders ADD COLUMN later INT DEFAULT 5")
    assert {int(row["id"]): row["later"] for row in orders.warden.sequence.read()}[10] is None


@pytest.mark.spark
def test_rows_of_a_partition_that_was_renamed_or_merged_are_not_read_twice(archived: OldOrders) -> None:
    orders = archived
    assert orders.all_ids() == EVERY
    orders.shop.run(
        "ALTER TABLE orders REORGANIZE PARTITION p_20260101, p_20260201 INTO (PARTITION p_2026 VALUES LESS THAN (200))"
    )
    with pytest.raises(Conflict, match="has rows of the range that main.archive.orders has as partition p_20260101"):
        orders.warden.sequence.read()
    planned = orders.warden.sequence.archive()
    assert planned.is_empty and "p_2026 has rows of the range that was archived as p_2" in planned.plan.warnings[-1]
    orders.shop.run("DELETE FROM orders WHERE id < 200")  # as if they were dropped
    assert orders.all_ids() == EVERY


@pytest.mark.spark
def test_an_archive_has_the_rows_of_one_table(archived: OldOrders, mariadb: MariaDb) -> None:
    """Of another database's table with the same name, nothing is archived there, and nothing is read from there."""
    other = OldOrders(archived.lake, mariadb.new_database())
    other.shop.run("ALTER TABLE orders DROP PARTITION p_20260101, p_20260201")
    assert other.all_ids() == list(range(200, 350))
    with pytest.raises(LakewardenError, match=f"archive.orders is the archive of {archived.shop.name}.orders"):
        other.warden.sequence.archive().apply()
    other.configure(table={"archive": {"table": "archive.others"}})
    assert [each.arguments["partition"] for each in other.warden.sequence.archive().plan.actions] == ["p_20260301"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("key", "values", "hidden"),
    [
        ("customer", ["customer 10", "customer 110", "customer 320"], {10, 110, 320}),
        ("id", ["10", "110", "320"], {10, 110, 320}),
        ("amount", ["12.5", "137.5000"], {10, 110}),
        ("cents", ["1250"], {10}),
    ],
)
def test_rows_of_a_hidden_person_are_left_out(
    archived: OldOrders, key: str, values: list[str], hidden: set[int]
) -> None:
    """Archived, detached or in the table, until the request is withdrawn."""
    orders = archived
    orders.configure(grace="0s")
    for partition in ("p_20260101", "p_20260101", "p_20260201"):
        orders.warden.sequence.drop(partition=[partition]).apply()
    asked = orders.warden.erasure.request("archive.orders", key=key, value=values)
    assert orders.all_ids() == sorted({*EVERY} - hidden)
    assert len(orders.warden.sequence.read(limit=320)) == 320
    orders.warden.erasure.withdraw(asked.id).apply()
    assert orders.all_ids() == EVERY


@pytest.mark.spark
def test_rows_that_cannot_be_filtered_are_not_read(archived: OldOrders) -> None:
    """The archive hides rows by a column that the database no longer has; another that changed its type is compared."""
    orders = archived
    orders.warden.erasure.request("archive.orders", key="amount", value=["12.5"])
    orders.warden.erasure.request("archive.orders", key="id", value=["320"])
    orders.shop.run("ALTER TABLE orders DROP COLUMN cents, MODIFY amount VARCHAR(40)")
    assert orders.all_ids() == [id for id in EVERY if id not in (10, 320)]
    orders.shop.run("ALTER TABLE orders DROP COLUMN amount")
    with pytest.raises(Conflict, match="hide rows of main.archive.orders by amount, and the database has no such col"):
        orders.warden.sequence.read()
