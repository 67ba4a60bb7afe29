"""`backfill locate`: what is said where others have expired all that tells where a target is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.engine.catalog.positions import Kept, Stamped
from lakewarden.errors import Conflict
from lakewarden.features.backfill.position import Position
from lakewarden.features.backfill.registration import PROPERTY
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


@pytest.fixture
def lost(shop: Shop) -> Shop:
    """A shop of which nothing tells whether batch 1 of its backfill is in the target; one row was put aside."""
    shop.write(on_bad_rows="quarantine")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    registered = {f"{PROPERTY}003": json.dumps({"name": "totals", "at": at.isoformat()})}
    shop.lake.catalog.update_namespace_properties("shop", updates=registered)
    row = {"backfill": "shop_003", "run": 1, "batch": 1, "checkpoint": "[3]", "error": "X", "at": at, "rows": 1}
    bad = pa.Table.from_pylist([row, row | {"backfill": "shop_004"}])
    shop.lake.catalog.create_table("shop.totals__bad_rows", bad.schema).append(bad)
    append(shop, 2)
    totals = shop.lake.catalog.load_table("shop.totals")
    totals.maintenance.expire_snapshots().by_id(totals.metadata.snapshots[0].snapshot_id).commit()
    stamp = Position(1, 1, "[3]", {"shop.orders": "7"}, None, 3, 9, "p", "s", 3, commits=1).text
    kept = Kept(Stamped(stamp, 404, 1, 1))
    totals.transaction().set_properties({"lakewarden.backfill.shop_003": kept.text}).commit_transaction()
    for entry in totals.metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink()
    return shop


@pytest.mark.parametrize("rows", ["there", "gone"])
def test_rows_that_were_put_aside_are_tried_again_only_if_the_others_are_gone(lost: Shop, rows: str) -> None:
    planned = lost.warden.backfill.locate(database="shop", version="3", rows=rows)
    forgets = ["forget 1 bad row of backfill shop_003"] if rows == "gone" else []
    assert [action.says for action in planned.plan.actions][1:] == forgets
    planned.apply()
    aside = lost.lake.catalog.load_table("shop.totals__bad_rows").scan().to_arrow()["backfill"].to_pylist()
    assert sorted(aside) == ["shop_003", "shop_004"][len(forgets) :]
