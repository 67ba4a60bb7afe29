"""`backfill run`, on real Spark.

Covers `features/backfill/planning.py`, `features/backfill/writing.py`, `features/backfill/position.py`,
`engine/sql/batches.py`, `engine/rewrite/division.py` and `engine/kernel/divide_task.py`.
"""

from __future__ import annotations

import pytest

from tests.features.backfill.shop import Shop

pytestmark = pytest.mark.spark


def test_each_batch_is_one_stamped_commit(shop: Shop) -> None:
    shop.order(5, 3, 8, 1, 9, 2, 7)
    shop.register()
    result = shop.run()
    assert (result["batches"], result["rows_read"], result["rows_written"]) == (3, 7, 7)
    assert shop.ids() == [1, 2, 3, 5, 7, 8, 9]
    assert [(stamp["batch"], stamp["checkpoint"], stamp["rows"], stamp["complete"]) for stamp in shop.stamps()] == [
        (1, "[3]", 3, False),
        (2, "[8]", 6, False),
        (3, "[9]", 7, True),
    ]
    status = shop.status()
    assert (status.status, status.rows_processed, status.checkpoint["id"]) == ("completed", 7, 9)
    assert shop.run() == {"actions": 0, "subjects": 0}
