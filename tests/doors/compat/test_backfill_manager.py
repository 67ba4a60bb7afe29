"""`BackfillManager` and `Migrator`."""

from __future__ import annotations

import pytest

from lakewarden.doors.compat.backfill_manager import BackfillError, BackfillManager, Migrator
from tests.features.backfill.shop import Shop
from tests.small_lake import SmallLake


@pytest.mark.spark
def test_a_backfill_from_its_migration_to_its_end(lake: SmallLake) -> None:
    shop = Shop(lake)
    shop.order(*range(7))
    shop.write(custom_fields={"cutover_timestamp": "2026-01-01 00:00:00"})
    (shop.folder / "003_note.migration.sql").write_text("ALTER TABLE {db}.totals ADD COLUMN note STRING")
    assert Migrator(lake.warden).apply_migrations(target_db="shop") == ["003"]
    assert Migrator(lake.warden).apply_migrations(target_db="shop") == []
    manager = BackfillManager(lake.warden)
    assert manager.register_pending_backfills(database="shop") == []  # the migration did it
    (pending,) = manager.list_backfills(status="pending")
    assert (pending["backfill_id"], pending["rows_processed"]) == ("shop_003", 0)
    paused = manager.run_backfill(database="shop", version="003", max_batches=1)
    assert (paused["status"], paused["checkpoint"]["id"]) == ("paused", 2)
    assert paused["checkpoint"]["cutover_timestamp"] == "2026-01-01 00:00:00"
    resumed = manager.resume_backfill(database="shop", version="003", max_batches=1)
    assert resumed["checkpoint"]["batches_completed"] == 2
    done = manager.run_backfill(database="shop", version=3)
    assert (done["status"], done["rows_processed"], done["db_name"]) == ("completed", 7, "shop")
    assert done["completed_at"] is not None and done["error_log"] == []
    assert manager.list_backfills(database="shop", status="pending") == []
    assert shop.ids() == list(range(7))
    with pytest.raises(BackfillError, match="completed|done"):
        manager.resume_backfill(database="shop", version="003")
    with pytest.raises(BackfillError, match="there is nothing to pause"):
        manager.pause_backfill(database="shop", version="003")


def test_errors_are_of_one_kind(lake: SmallLake) -> None:
    with pytest.raises(BackfillError, match="names no folder"):
        BackfillManager(lake.warden).list_backfills()
