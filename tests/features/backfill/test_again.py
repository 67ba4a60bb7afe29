"""`backfill run --again` after anything but appends: it writes the rows that are new in the columns that its SQL reads.

Covers `features/backfill/planning.py`, `features/backfill/pinned.py`, `engine/sql/batches.py`,
`engine/comparison/new_rows.py` and `engine/kernel/spark_values.py`.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.comparison import new_rows
from lakewarden.errors import Conflict, Interrupted, LakewardenError
from lakewarden.lifecycle import failpoints
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes, unpartitioned
from tests.features.backfill.shop import SQL, Shop

pytestmark = pytest.mark.spark
UNREAD = SQL.replace("SELECT id, region, CAST(amount * 100 AS BIGINT)", "SELECT id, 'all' AS region, 1")
ORDERS = "main.shop.orders"
MEASURED = "id BIGINT, d DOUBLE, tags MAP<STRING, DOUBLE>, parts ARRAY<STRUCT<a: INT>>"


def sql(shop: Shop, *statements: str) -> None:
    for statement in statements:
        shop.warden.ground.spark.sql(statement.format(orders=ORDERS)).collect()


def again(shop: Shop) -> tuple[int, ...]:
    """What comes with `--again`, after `status` has announced how many rows it reads."""
    before, late = shop.ids(), shop.status().late_rows
    done = shop.run(again=True)
    assert done["rows_read"] == late, (done, late)
    assert shop.status().late_rows == 0
    left = list(shop.ids())
    for id in before:
        left.remove(id)
    return tuple(id for id in left if id is not None)


def begun(shop: Shop, *ids: int, text: str = SQL, **meta: Any) -> Shop:
    shop.order(*ids)
    shop.register(text, **meta)
    shop.run()
    return shop


def test_columns_that_the_source_got_or_renamed(shop: Shop) -> None:
    begun(shop, 1, 2, 3, 4)
    sql(
        shop,
        "ALTER TABLE {orders} ADD COLUMN note STRING",
        "ALTER TABLE {orders} RENAME COLUMN amount TO price",
        "INSERT INTO {orders} VALUES ('north', 5, 2.5, 'new'), ('north', 1, 1.5, NULL)",
        "DELETE FROM {orders} WHERE id = 2",
    )
    shop.write(SQL.replace("amount", "price"))
    assert again(shop) == (1, 5)
    sql(shop, "UPDATE {orders} SET note = 'unread'", "UPDATE {orders} SET price = 9 WHERE id = 3")
    assert again(shop) == (3,)


def test_a_column_that_was_dropped_and_added_again(shop: Shop) -> None:
    begun(shop, 1, 2, 3, text=SQL.replace("SELECT id, region", "SELECT id, coalesce(region, 'none')"))
    sql(
        shop,
        "ALTER TABLE {orders} DROP COLUMN region",
        "ALTER TABLE {orders} ADD COLUMN region STRING",
        "DELETE FROM {orders} WHERE id = 2",
        "INSERT INTO {orders} (id, amount, region) VALUES (4, 1.5, 'south')",
    )
    assert again(shop) == (4,)


def test_maps_and_signed_zeros_and_nan(shop: Shop) -> None:
    sql(
        shop,
        f"CREATE TABLE main.shop.measured ({MEASURED})",
        f"CREATE TABLE main.shop.kept ({MEASURED})",
        "INSERT INTO main.shop.measured "
        "SELECT id, double('NaN'), map('x', 1D, 'y', id), array(struct(1)) FROM range(3)",
    )
    shop.register("INSERT INTO {db}.kept SELECT * FROM {db}.measured", target_table="kept")
    shop.run()
    sql(
        shop,
        "INSERT INTO main.shop.measured "
        "VALUES (3, double('-0.0'), map('x', double('-0.0')), array(struct(NULL), NULL))",
        "DELETE FROM main.shop.measured WHERE id = 1",
        "UPDATE main.shop.measured SET tags = map('z', 1D) WHERE id = 2",
    )
    assert shop.status().late_rows == 2
    shop.run(again=True)
    rows = shop.lake.catalog.load_table("shop.kept").scan().to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == [0, 1, 2, 2, 3]
    new = rows[-1]
    assert (math.copysign(1, new["d"]), math.copysign(1, dict(new["tags"])["x"])) == (-1, -1)
    assert new["parts"] == [{"a": None}, None]
    assert sorted(dict(row["tags"]).get("z", 0) for row in rows if row["id"] == 2) == [0, 1]


def test_a_changed_row_is_written_beside_its_former_one_if_the_sql_reads_what_was_changed(shop: Shop) -> None:
    begun(shop, 1, 2, 3, text=UNREAD)
    sql(shop, "UPDATE {orders} SET amount = amount + 1")
    assert again(shop) == ()
    sql(shop, "UPDATE {orders} SET id = id + 10 WHERE id < 3", "DELETE FROM {orders} WHERE id = 3")
    planned = shop.warden.backfill.run(database="shop", version="3", again=True)
    (warning,) = planned.plan.warnings
    assert "3 rows were changed or deleted in shop.orders since: a changed row is written again" in warning
    assert "its former row stays in main.shop.totals" in warning
    assert again(shop) == (11, 12)


def test_late_rows_are_those_that_again_reads(shop: Shop) -> None:
    begun(shop, *range(4), initial_checkpoint={"id": 1})
    assert shop.ids() == [2, 3]
    shop.order(1, 7)
    assert again(shop) == (7,)
    sql(shop, "UPDATE {orders} SET amount = 3 WHERE id IN (0, 2)", "INSERT INTO {orders} VALUES ('south', 8, 1)")
    assert again(shop) == (2, 8)


def test_without_the_snapshots_between_rows_are_compared(shop: Shop) -> None:
    begun(shop, 1, 2)
    read = shop.lake.head("shop.orders")
    sql(shop, f"ALTER TABLE {ORDERS} CREATE TAG read AS OF VERSION {read}")
    shop.order(3)
    shop.order(4)
    sql(shop, "CALL main.system.rewrite_data_files('shop.orders', options => map('rewrite-all', 'true'))")
    sql(shop, "CALL main.system.expire_snapshots(table => 'shop.orders', older_than => now(), retain_last => 1)")
    assert again(shop) == (3, 4)


def test_versions_between_expire_while_a_run_is_paused(shop: Shop) -> None:
    """Both ends are kept for the run. Iceberg does not read what was appended across the gap."""
    begun(shop, *range(3))
    for id in range(10, 15):
        shop.order(id, id)
    shop.run(again=True, max_batches=1)
    shop.warden.retention.expire("shop.orders", keep_last=1, keep_days=0, reader_grace="0s").apply()
    assert len(shop.lake.catalog.load_table("shop.orders").metadata.snapshots) == 2
    shop.run()
    assert shop.ids() == sorted([*range(3), *range(10, 15), *range(10, 15)])


def test_rows_are_written_once_if_a_run_ends_between_its_batches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark, and with rows that have equals: which of these is new is not the same each time."""
    monkeypatch.setattr(new_rows, "_HERE", -1)
    begun(shop, *range(6))
    shop.order(*range(4), 2, 9, 9)
    sql(shop, "UPDATE {orders} SET amount = 5 WHERE id = 1", "DELETE FROM {orders} WHERE id = 5")
    failpoints.when("backfill.published", lambda: shop.warden.backfill.pause(database="shop", version="3"))
    with pytest.raises(Interrupted):
        shop.run(again=True)
    shop.order(100)
    assert len(shop.ids()) < 6 + 8
    shop.run()
    assert shop.ids() == sorted([*range(6), 0, 1, 1, 2, 2, 3, 9, 9])
    assert again(shop) == (100,)


def test_hidden_rows_are_never_written(shop: Shop) -> None:
    begun(shop, 1, 2)
    shop.order(3, 4, region="gone")
    sql(shop, "UPDATE {orders} SET amount = 3 WHERE id IN (1, 4)")
    shop.warden.erasure.request("shop.orders", key="region", value=["gone"])
    assert again(shop) == (1,)


def test_equality_deletes_are_compared_as_copies(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(shop, 1, 2, 3)
    table = shop.lake.catalog.load_table("shop.orders")
    (id,) = (field.field_id for field in table.schema().fields if field.name == "id")
    gone = column_of("id", pa.int64(), id, [2])
    commit_deletes(table, equality_deletes(table, gone, [id], unpartitioned(table)))
    shop.order(4)
    with monkeypatch.context() as patched, pytest.raises(LakewardenError, match="too many rows are new"):
        patched.setattr(new_rows, "_MOST_SENT", 1)
        again(shop)
    assert again(shop) == (4,)


def test_columns_that_changed_after_the_last_commit_are_refused_until_the_next_one(shop: Shop) -> None:
    """Spark reads a version with the columns that it was committed with, and the head of main with the current ones."""
    spark = shop.warden.ground.spark
    shop.order(1)
    shop.register()
    spark.sql("ALTER TABLE main.shop.orders RENAME COLUMN amount TO price")
    after = SQL.replace("amount", "price")
    shop.write(after)
    changed = r"main.shop.orders: column price changed after its last commit"
    for refused in (lambda: shop.warden.backfill.register(database="shop"), shop.run):
        with pytest.raises(Conflict, match=changed):
            refused()
    spark.sql("INSERT INTO main.shop.orders VALUES ('north', 2, 1.5)")
    shop.run()
    spark.sql("INSERT INTO main.shop.orders VALUES ('north', 3, 1.5)")
    spark.sql("ALTER TABLE main.shop.orders ADD COLUMN unread INT")
    assert (shop.status().late_rows, shop.status().notes) == (1, [])
    shop.run(again=True)
    spark.sql("INSERT INTO main.shop.orders VALUES ('north', 4, 1.5, 0)")
    spark.sql("ALTER TABLE main.shop.orders RENAME COLUMN price TO cost")
    shop.write(SQL.replace("amount", "cost"))
    assert shop.status().late_rows is None
    assert "column cost changed after its last commit" in shop.status().notes[0]
    with pytest.raises(Conflict, match="column cost changed"):
        shop.run(again=True)
    shop.warden.compaction.compact("shop.orders", rewrite_all=True).apply()
    assert shop.status().late_rows == 1
    shop.run(again=True)
    assert shop.ids() == [1, 2, 3, 4]


def test_a_column_that_changed_does_not_matter_if_nothing_arrived_since(shop: Shop) -> None:
    begun(shop, 1)
    spark = shop.warden.ground.spark
    spark.sql("ALTER TABLE main.shop.orders RENAME COLUMN amount TO price")
    shop.write(SQL.replace("amount", "price"))
    assert shop.status().late_rows == 0
    assert shop.warden.backfill.run(database="shop", version="3", again=True).is_empty
