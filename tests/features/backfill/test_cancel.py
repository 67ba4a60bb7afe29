"""`backfill cancel`."""

from __future__ import annotations

import pytest

from lakewarden.errors import IllegalTransition
from tests.features.backfill.shop import Shop


@pytest.mark.spark
def test_a_cancelled_backfill_continues_with_a_new_plan(shop: Shop) -> None:
    shop.order(*range(7))
    shop.register()
    shop.run(max_batches=1)
    row = shop.warden.backfill.cancel(database="shop", version="3")
    assert (row.status, row.batches_completed) == ("paused", 1)
    with pytest.raises(IllegalTransition, match="cancelled"):
        shop.warden.backfill.resume(database="shop", version="3")
    shop.run()
    assert (shop.status().status, shop.ids()) == ("completed", list(range(7)))
