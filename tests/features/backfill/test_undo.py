"""`backfill undo`, on real Spark. Covers `features/backfill/undoing.py`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict, StalePlan
from lakewarden.features.backfill.position import Position
from lakewarden.features.backfill.undoing import is_complete
from lakewarden.lifecycle import failpoints
from tests.features.backfill.shop import SQL, TOTALS, Shop
from tests.features.backfill.test_run import Killed, kill

OTHERS = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)
NOTHING = ("there is nothing to undo: the target has no rows of backfill shop_003",)


def others_append(shop: Shop) -> None:
    shop.lake.catalog.load_table("shop.totals").append(OTHERS)


def undo(shop: Shop) -> Any:
    return shop.warden.backfill.undo(database="shop", version="3")


@pytest.mark.spark
def test_exactly_its_rows_are_removed_and_it_runs_again(shop: Shop) -> None:
    shop.order(*range(6))
    shop.register()
    assert undo(shop).plan.warnings == NOTHING
    others_append(shop)
    shop.run()
    shop.order(6)
    shop.run(again=True)
    others_append(shop)
    assert [stamp["commits"] for stamp in shop.stamps()] == [1, 2, 3]
    planned = undo(shop)
    assert planned.plan.id == undo(shop).plan.id
    assert [action.says for action in planned.plan.actions] == ["remove 7 rows in 3 files that backfill shop_003 wrote"]
    assert shop.ids() == [*range(7), 100, 100]
    failpoints.when("backfill.undone", kill)
    with pytest.raises(Killed):
        planned.apply()
    failpoints.arm("")
    shop.lose_control_database()
    status = shop.status()
    assert (shop.ids(), status.status, status.rows_processed, status.notes) == ([100, 100], "pending", 0, [])
    assert undo(shop).plan.warnings == NOTHING
    shop.run(max_batches=1)
    assert (shop.ids(), shop.status().status) == ([0, 1, 2, 100, 100], "paused")
    undo(shop).apply()
    assert (shop.ids(), shop.status().status) == ([100, 100], "pending")
    with pytest.raises(StalePlan):
        shop.warden.backfill.resume(database="shop", version="3")
    shop.run()
    assert shop.ids() == [*range(7), 100, 100]


@pytest.mark.spark
def test_an_undo_is_rolled_back_with_its_stamps(shop: Shop) -> None:
    shop.order(*range(3))
    shop.register()
    shop.run()
    version = shop.lake.refs("shop.totals")["main"]
    undo(shop).apply()
    shop.warden.version.rollback(f"shop.totals@{version}").apply()
    assert (shop.ids(), shop.status().status, shop.status().notes) == ([0, 1, 2], "completed", [])
    undo(shop).apply()
    others_append(shop)
    shop.warden.retention.expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s", expire_tags=True).apply()
    assert (shop.ids(), shop.status().status) == ([100], "pending")


@pytest.mark.spark
def test_it_is_refused_once_the_target_has_built_on_the_rows(shop: Shop) -> None:
    shop.order(*range(6))
    shop.register()
    shop.run()
    spark = shop.warden.ground.spark
    spark.sql("ALTER TABLE main.shop.totals SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql("DELETE FROM main.shop.totals WHERE id = 1")
    with pytest.raises(Conflict, match="has built on the rows of backfill shop_003: rows were deleted from 1 file"):
        undo(shop)
    spark.sql("CALL main.system.rewrite_data_files(table => 'shop.totals', options => map('rewrite-all', 'true'))")
    with pytest.raises(Conflict, match="were compacted, rewritten or removed"):
        undo(shop)
    assert shop.ids() == [0, 2, 3, 4, 5]
    shop.warden.retention.expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s").apply()
    with pytest.raises(Conflict, match="have expired, so which rows of main.shop.totals are its own is not known"):
        undo(shop)


@pytest.mark.spark
def test_what_happens_between_plan_and_undo_is_not_lost(shop: Shop) -> None:
    shop.order(*range(6))
    shop.register()
    shop.run(max_batches=1)
    planned = undo(shop)
    shop.run(max_batches=1)
    with pytest.raises(StalePlan):
        planned.apply()
    assert shop.ids() == list(range(6))
    failpoints.when("commit.ready", lambda: others_append(shop))
    undo(shop).apply()
    assert shop.ids() == [100]


@pytest.mark.spark
def test_a_branch_is_dropped_with_its_files_and_bad_rows_are_forgotten(shop: Shop) -> None:
    shop.lake.catalog.load_table("shop.orders")
    shop.order(1, 2)
    shop.order(3, region="bad")
    sql = SQL.replace("SELECT id", "SELECT IF(region = 'bad', raise_error('no'), id)")
    shop.register(sql, mode="branch", on_bad_rows="quarantine", batch_size=1)
    shop.run(max_batches=3)
    assert [action.says for action in undo(shop).plan.actions] == [
        "drop branch backfill_shop_003 with 2 rows that were not published, and delete its files",
        "forget 1 bad row of backfill shop_003",
    ]
    undo(shop).apply()
    assert (set(shop.lake.refs("shop.totals")), shop.ids()) == (set(), [])
    assert shop.lake.catalog.load_table("shop.totals").metadata.snapshots == []
    assert (shop.status().status, undo(shop).plan.warnings) == ("pending", NOTHING)
    shop.write(mode="branch", batch_size=1)
    shop.run()
    assert shop.ids() == [1, 2, 3]
    undo(shop).apply()
    assert (shop.ids(), shop.status().status) == ([], "pending")


@pytest.mark.parametrize(
    ("stamps", "complete"),
    [
        ([(1, 1, 1), (1, 2, 2)], True),
        ([(1, 0, 1), (1, 1, 2), (2, 1, 3)], True),
        ([(1, 7, 1), (2, 3, 2), (3, 1, 3)], True),
        ([(1, 1, 2)], False),  # the first part of batch 1
        ([(1, 1, 1), (2, 1, 3)], False),  # the second batch of run 1
        ([(1, 2, 2), (1, 3, 3)], False),
        ([(1, 1, 1), (1, 3, 3)], False),
        ([(1, 1, 1), (1, 1, 1)], False),  # a purge gave it to a commit of others
    ],
)
def test_a_missing_stamp_is_noticed(stamps: list[tuple[int, int, int]], complete: bool) -> None:
    found = [
        Position(run, batch, "[1]", {}, None, 1, 1, "p", "s", 1, commits=commits) for run, batch, commits in stamps
    ]
    assert is_complete(found) is complete
