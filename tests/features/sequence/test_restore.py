"""`sequence restore` on a real server."""

from __future__ import annotations

import pytest

from lakewarden.errors import LakewardenError
from tests.features.sequence.old_orders import EVERY, OldOrders

pytestmark = pytest.mark.spark


def test_detached_partitions_come_back(archived: OldOrders) -> None:
    orders = archived
    before = orders.shop.run("SELECT * FROM orders ORDER BY id")
    orders.warden.sequence.drop().apply()
    planned = orders.warden.sequence.restore(partition=["p_20260201"])
    (warning,) = planned.plan.warnings
    assert "p_20260201 has about 100 rows: while MariaDB checks them, nobody can read or write shop_" in warning
    planned.apply()
    assert orders.ids() == [*range(100, 200), *range(300, 350)]
    orders.warden.sequence.restore().apply()
    assert orders.shop.run("SELECT * FROM orders ORDER BY id") == before and orders.tables() == ["orders"]
    assert orders.warden.sequence.restore().is_empty
    with pytest.raises(LakewardenError, match=r"p_20260201 of shop_\d+.orders is not detached"):
        orders.warden.sequence.restore(partition=["p_20260201"]).apply()


def test_rows_written_to_a_detached_partition_are_never_lost(archived: OldOrders) -> None:
    """Neither by attaching the others again, nor by dropping the partition."""
    orders = archived
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.shop.run("INSERT INTO orders (id, ordered, customer) VALUES (50, '2026-11-01', 'late')")
    orders.configure(grace="0s")
    for operation in (orders.warden.sequence.restore(), orders.warden.sequence.drop(partition=["p_20260101"])):
        with pytest.raises(LakewardenError, match="got new rows since it was detached"):
            operation.apply()
        assert orders.ids() == [50, *range(100, 350)] and orders.ids("orders__p_20260101") == list(range(1, 100))
    orders.shop.run("DELETE FROM orders WHERE id = 50")
    orders.warden.sequence.restore().apply()
    assert orders.ids() == EVERY


def test_a_table_that_got_a_column_meanwhile(archived: OldOrders) -> None:
    orders = archived
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.shop.run("ALTER TABLE orders ADD COLUMN later INT DEFAULT 5")
    with pytest.raises(LakewardenError, match="got other columns"):
        orders.warden.sequence.restore().apply()
    orders.shop.run("ALTER TABLE orders__p_20260101 ADD COLUMN later INT DEFAULT 5")
    orders.warden.sequence.restore().apply()
    assert orders.ids() == EVERY and orders.shop.run("SELECT DISTINCT later FROM orders") == [(5,)]

    with pytest.raises(LakewardenError, match="differs from its archive: values of later"):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.warden.sequence.archive(again=True, partition=["p_20260101"]).apply()
    assert [row["later"] for row in orders.archived()] == [5] * 99 + [None] * 200
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    assert orders.ids("orders__p_20260101") == list(range(1, 100))
