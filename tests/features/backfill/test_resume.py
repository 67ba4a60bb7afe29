"""`backfill resume`."""

from __future__ import annotations

import pytest

from lakewarden.errors import LakewardenError, StalePlan
from tests.features.backfill.shop import SQL, Shop


@pytest.mark.spark
def test_a_failed_backfill_is_resumed(shop: Shop) -> None:
    """Its error goes away with the state of the world; what was published before stays."""
    shop.order(*range(7))
    shop.register()
    shop.run(max_batches=1)
    target = shop.lake.catalog.load_table("shop.totals")
    with target.update_schema() as update:
        update.rename_column("cents", "renamed")
    with pytest.raises(LakewardenError):
        shop.warden.backfill.resume(database="shop", version="3")
    status = shop.status()
    assert status.status == "failed" and len(status.error_log) == 1
    with shop.lake.catalog.load_table("shop.totals").update_schema() as update:
        update.rename_column("renamed", "cents")
    assert shop.warden.backfill.resume(database="shop", version="3", max_batches=1).status == "paused"
    assert shop.ids() == list(range(6))
    assert shop.warden.backfill.resume(database="shop", version="3").status == "completed"  # whatever the first limit
    assert (shop.ids(), shop.status().error_log) == (list(range(7)), [])


@pytest.mark.spark
def test_after_a_change_of_its_sql_the_rest_is_planned_again(shop: Shop) -> None:
    shop.order(*range(7))
    shop.register()
    shop.run(max_batches=1)
    shop.write(SQL.replace("* 100", "* 1000"))
    with pytest.raises(StalePlan, match="003_totals.backfill.sql changed"):
        shop.warden.backfill.resume(database="shop", version="3")
    planned = shop.warden.backfill.run(database="shop", version="3")
    assert planned.plan.warnings == ("shop_003: its SQL changed after batch 1, which was written with the former SQL",)
    planned.apply()
    assert shop.ids() == list(range(7))
