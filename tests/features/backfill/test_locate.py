"""`backfill locate`: what is said where others have expired all that tells where a target is."""

from __future__ import annotations

import pytest

from lakewarden.errors import Conflict
from tests.features.backfill.shop import Shop
from tests.features.backfill.test_position import append, written
from tests.walks.others import Others


@pytest.mark.spark
@pytest.mark.parametrize("is_undone", [False, True])
def test_what_nothing_tells_any_more_is_refused_until_somebody_says_it(shop: Shop, is_undone: bool) -> None:
    others = Others(shop.lake, "shop.totals")
    properties = "'write.metadata.previous-versions-max' = '1', 'write.metadata.delete-after-commit.enabled' = 'true'"
    others.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})")
    shop.order(*range(6))
    shop.register()
    shop.run()
    if is_undone:
        shop.warden.backfill.undo(database="shop", version="3").apply()
    append(shop, 3)
    others.compact()
    others.expire()
    append(shop, 3)
    others.expire()
    status = shop.status()
    assert (status.status, len(status.notes)) == ("paused", 1)
    assert "not known whether the target still has its last commit" in status.notes[0]
    for again in (False, True):
        with pytest.raises(Conflict, match="it is not known whether shop.totals still has"):
            shop.run(again=again)
    if not is_undone:
        with pytest.raises(Conflict, match="it is not known whether"):
            shop.warden.backfill.undo(database="shop", version="3")
    before = shop.lake.head("shop.totals")
    shop.warden.backfill.locate(database="shop", version="3", rows="gone" if is_undone else "there").apply()
    assert shop.lake.head("shop.totals") == before
    assert shop.status().status == ("pending" if is_undone else "completed")
    shop.run()
    assert written(shop) == list(range(6))
    known = shop.warden.backfill.locate(database="shop", version="3", rows="gone")
    assert known.plan.warnings == ("where it is is known: nothing to say",)
