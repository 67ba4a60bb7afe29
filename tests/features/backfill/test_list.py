"""`backfill list`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewarden.errors import LakewardenError
from tests.features.backfill.shop import SQL, TOTALS, Shop


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


@pytest.mark.spark
def test_one_of_many_does_not_stand_in_the_way_of_the_others(shop: Shop) -> None:
    others = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)
    shop.lake.catalog.load_table("shop.totals").append(others)
    for name in ("fails", "copies"):
        shop.lake.catalog.create_table(f"shop.{name}", TOTALS)
    shop.order(1, 2)
    shop.write(priority=2)
    failing = SQL.replace("totals", "fails").replace("SELECT id", "SELECT IF(id = 2, raise_error('no'), id)")
    shop.write(failing, version="010", priority=1)
    shop.write("INSERT INTO {db}.copies SELECT * FROM {db}.totals WHERE id > {checkpoint_id}", version="020")
    shop.warden.backfill.register(database="shop")
    planned = shop.warden.backfill.run(database="shop", all=True)
    because = "left out, because it reads main.shop.totals, which shop_003 writes first: run it afterwards"
    assert planned.plan.warnings == (f"shop_020: {because}",)
    with pytest.raises(LakewardenError):
        planned.apply()
    states = {row.backfill_id: row.status for row in shop.warden.backfill.list()}
    assert states == {"shop_003": "completed", "shop_010": "failed", "shop_020": "pending"}
    assert (shop.status().error_log, shop.ids()) == ([], [1, 2, 100])
    before = shop.lake.catalog.load_table("shop.totals").metadata.snapshots[0].snapshot_id
    shop.warden.version.rollback(f"shop.totals@{before}").apply()
    planned = shop.warden.backfill.run(database="shop", all=True)
    assert planned.plan.warnings == (
        "shop_003: left out: main.shop.totals was rolled back behind batch 1 of backfill shop_003",
    )
    assert [action.arguments["backfill"] for action in planned.plan.actions] == ["shop_010", "shop_020"]
