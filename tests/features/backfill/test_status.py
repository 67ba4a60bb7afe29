"""`backfill status`. Covers `features/backfill/progress.py`."""

from __future__ import annotations

import pytest

from tests.features.backfill.shop import Shop


@pytest.mark.spark
def test_status_is_what_the_target_knows(shop: Shop) -> None:
    shop.order(*range(7))
    shop.register(custom_fields={"cutover": "2026-01-01"})
    status = shop.status()
    assert (status.status, status.rows_processed, status.started_at) == ("pending", 0, None)
    shop.run(max_batches=2)
    status = shop.status()
    assert (status.backfill_id, status.migration_version, status.db_name) == ("shop_003", "003", "shop")
    assert (status.status, status.rows_processed, status.held_by) == ("paused", 6, None)
    assert status.checkpoint == {
        "cutover": "2026-01-01",
        "id": 5,
        "current_batch_size": 3,
        "rows_processed": 6,
        "batches_completed": 2,
    }
    assert status.started_at < status.updated_at and status.completed_at is None and status.error_log == []
    shop.order(100, 101)
    assert shop.status().late_rows == 2
    shop.lose_control_database()
    status = shop.status()
    assert (status.status, status.rows_processed, status.checkpoint["id"]) == ("paused", 6, 5)
    shop.run()
    assert (shop.status().status, shop.ids()) == ("completed", list(range(7)))
