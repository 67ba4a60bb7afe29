"""`backfill list`."""

from __future__ import annotations

import pytest

from tests.features.backfill.shop import Shop


@pytest.mark.spark
def test_backfills_are_listed_by_priority(shop: Shop) -> None:
    shop.order(1, 2)
    shop.write(description="totals of orders")
    shop.write(version="010", priority=5)
    shop.warden.backfill.register(database="shop")
    rows = shop.warden.backfill.list()
    assert [(row.backfill_id, row.priority, row.description) for row in rows] == [
        ("shop_010", 5, "totals"),
        ("shop_003", 0, "totals of orders"),
    ]
    assert shop.warden.backfill.list(status="running") == []
    shop.run(version=None, all=True)
    assert [stamp["batch"] for stamp in shop.stamps()] == [1]
    assert shop.ids() == [1, 1, 2, 2]  # both backfills insert all orders
    assert [row.status for row in shop.warden.backfill.list(database="shop")] == ["completed"] * 2
