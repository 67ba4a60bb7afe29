"""A purge of the source: a backfill goes on from the purged version, and `--again` compares with it.

Covers `features/erasure/purging/planning.py`, as far as it warns of backfills.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict
from tests.features.backfill.shop import ORDERS, Shop
from tests.walks.others import stop

pytestmark = pytest.mark.spark


def purge(shop: Shop, region: str) -> Any:
    shop.warden.erasure.request("shop.orders", key="region", value=[region])
    return shop.warden.erasure.purge("shop.orders", now=True)


def about_backfills(planned: Any) -> list[str]:
    return [warning for warning in planned.plan.warnings if "backfill" in warning]


def test_a_backfill_goes_on_from_the_purged_version(shop: Shop) -> None:
    shop.order(*range(3))
    shop.order(*range(3, 9), region="gone")
    shop.order(*range(9, 12))
    shop.register()
    shop.run(max_batches=1)
    planned = purge(shop, "gone")
    assert about_backfills(planned) == []
    planned.apply()
    shop.lose_control_database()
    shop.run()
    assert (shop.ids(), shop.status().status) == ([0, 1, 2, 9, 10, 11], "completed")
    purge(shop, "nobody").apply()
    shop.order(20, region="also gone")
    shop.run(again=True)
    for region in ("also gone", "north"):
        purge(shop, region).apply()
    shop.order(21)
    assert shop.status().late_rows == 1
    shop.run(again=True)
    assert shop.ids() == [0, 1, 2, 9, 10, 11, 20, 21]
    shop.warden.backfill.undo(database="shop", version="3").apply()
    shop.run()
    assert shop.ids() == [21]


def test_a_version_that_goes_is_named_and_can_be_tagged(shop: Shop) -> None:
    shop.order(*range(3))
    shop.order(3, region="gone")
    shop.register()
    shop.run()
    read = shop.lake.head("shop.orders")
    shop.order(4)
    planned = purge(shop, "gone")
    (warning,) = about_backfills(planned)
    assert f"backfill shop_003 has read version {read}, which expires" in warning
    assert f"lakewarden version tag main.shop.orders@{read} --name TAG" in warning
    shop.warden.version.tag(f"shop.orders@{read}", name="read").apply()
    again = shop.warden.erasure.purge("shop.orders", now=True)
    assert about_backfills(again) == []
    again.apply()
    assert shop.lake.refs("shop.orders")["read"] != read
    assert shop.status().late_rows == 1
    shop.run(again=True)
    assert shop.ids() == [0, 1, 2, 3, 4]


def test_a_version_that_the_run_no_longer_needs_is_not_named(shop: Shop) -> None:
    shop.order(*range(3))
    shop.order(3, region="gone")
    shop.register()
    shop.run()
    read = shop.lake.head("shop.orders")
    shop.order(*range(4, 8))
    shop.run(again=True, max_batches=1)
    (warning,) = about_backfills(purge(shop, "gone"))
    assert f"backfill shop_003 has read version {read}, which expires" in warning
    shop.run()
    assert about_backfills(shop.warden.erasure.purge("shop.orders", now=True)) == []
    read = shop.lake.head("shop.orders")
    shop.order(20)
    (warning,) = about_backfills(shop.warden.erasure.purge("shop.orders", now=True))
    assert f"backfill shop_003 has read version {read}, which expires" in warning


def test_a_version_of_a_table_that_is_only_joined_is_not_named(shop: Shop) -> None:
    shop.order(*range(4))
    others = shop.lake.catalog.create_table("shop.others", ORDERS)
    for region, id in (("gone", 1), ("south", 2)):
        others.append(pa.table({"region": [region], "id": [id], "amount": [1.0]}, schema=ORDERS))
    joined = (
        "INSERT INTO {db}.totals (id, region, cents) SELECT o.id, x.region, 1 FROM {db}.orders o "
        "LEFT JOIN {db}.others x ON x.id = o.id"
    )
    shop.register(joined, source_table="orders")
    shop.run(max_batches=1)
    others.append(pa.table({"region": ["west"], "id": [3], "amount": [1.0]}, schema=ORDERS))
    shop.warden.erasure.request("shop.others", key="region", value=["gone"])
    planned = shop.warden.erasure.purge("shop.others", now=True)
    assert about_backfills(planned) == []
    planned.apply()
    shop.run()
    assert shop.ids() == [*range(4)]


def test_a_version_that_a_purge_made_is_named_once_it_goes_too(shop: Shop) -> None:
    shop.order(*range(3))
    shop.order(3, region="gone")
    shop.order(4, region="also gone")
    shop.register()
    shop.run()
    purge(shop, "gone").apply()
    made = shop.lake.head("shop.orders")
    shop.order(5)
    (warning,) = about_backfills(purge(shop, "also gone"))
    assert f"backfill shop_003 has read version {made}, which expires" in warning


@pytest.mark.parametrize("most", [None, 1])
def test_a_purge_on_spark_moves_the_position_too(shop: Shop, most: int | None) -> None:
    shop.order(*range(4))
    shop.order(10, region="gone")
    shop.register()
    shop.run(max_batches=most)
    spark = shop.warden.ground.spark
    spark.sql("ALTER TABLE main.shop.orders SET TBLPROPERTIES ('format-version'='3')")
    planned = purge(shop, "gone")
    assert about_backfills(planned) == []
    if most is None:
        planned.apply()
    else:
        stop(planned, "spark_cleansing.moved")  # what was moved is known from the versions themselves
        shop.warden.operation.resume(shop.warden.operation.list()[0].id)
        shop.run()
    spark.sql("INSERT INTO main.shop.orders VALUES ('also gone', 20, 1.5)")
    purge(shop, "also gone").apply()
    spark.sql("INSERT INTO main.shop.orders VALUES ('north', 21, 1.5)")
    assert (shop.status().late_rows, shop.status().notes) == (1, [])
    shop.run(again=True)
    assert shop.ids() == [*range(4), *([10] if most is None else []), 21]


def test_a_version_that_is_gone_is_refused(shop: Shop) -> None:
    shop.order(*range(3))
    shop.order(3, region="gone")
    shop.register()
    shop.run()
    shop.order(4)
    purge(shop, "gone").apply()
    assert shop.status().late_rows is None
    assert "a version that backfill shop_003 has read is gone" in shop.status().notes[0]
    with pytest.raises(Conflict, match="a version that backfill shop_003 has read is gone"):
        shop.run(again=True)
