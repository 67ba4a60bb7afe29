"""`backfill clear`."""

from __future__ import annotations

import pytest

from tests.features.backfill.shop import Shop


@pytest.mark.spark
def test_registered_again_it_continues_where_the_target_is(shop: Shop) -> None:
    shop.order(*range(5))
    shop.register()
    shop.run(max_batches=1)
    shop.warden.backfill.clear(database="shop", version="3")
    assert shop.warden.backfill.list() == []
    shop.register()
    assert shop.status().rows_processed == 3
    shop.run()
    assert shop.ids() == list(range(5))
