"""`backfill pause`."""

from __future__ import annotations

import os

import pytest

from lakewarden.errors import Interrupted, LakewardenError
from lakewarden.lifecycle import failpoints
from tests.features.backfill.shop import Shop


@pytest.mark.spark
def test_a_pause_from_another_process_takes_effect_after_the_running_batch(shop: Shop) -> None:
    shop.order(*range(9))
    shop.register()

    def pause() -> None:
        status = shop.status()
        assert (status.status, str(status.held_by).rpartition(":")[2]) == ("running", str(os.getpid()))
        shop.lake.run("backfill", "pause", "--database", "shop", "--version", "3")

    failpoints.when("backfill.written", pause)
    with pytest.raises(Interrupted, match="was paused after 1 of 3"):
        shop.run()
    assert (shop.status().status, shop.ids()) == ("paused", [0, 1, 2])
    shop.warden.backfill.resume(database="shop", version="3")
    assert (shop.status().status, shop.ids()) == ("completed", list(range(9)))


@pytest.mark.spark
def test_there_is_nothing_to_pause(shop: Shop) -> None:
    shop.order(1)
    shop.register()
    with pytest.raises(LakewardenError, match="no operation of backfill shop_003"):
        shop.warden.backfill.pause(database="shop", version="3")
