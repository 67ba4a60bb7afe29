"""`sequence archive` on a real server and with real Spark.

Covers `features/sequence/archives.py`, `features/sequence/copying.py`, `features/sequence/retirement.py` and
`engine/spark/database_rows.py`.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.features.sequence.old_orders import OldOrders

pytestmark = pytest.mark.spark


def test_partitions_past_retention_are_copied_once(orders: OldOrders) -> None:
    planned = orders.warden.sequence.archive()
    assert [action.arguments["partition"] for action in planned.plan.actions] == [
        "p_20260101",
        "p_20260201",
        "p_20260301",
    ]
    assert orders.warden.sequence.archive().plan.id == planned.plan.id

    report = planned.apply()

    assert report.result["rows"] == 299
    assert orders.warden.sequence.archive().is_empty
    rows = orders.archived()
    assert [int(row["id"]) for row in rows] == list(range(1, 300))
    assert rows[9]["customer"] == "customer 10" and rows[9]["amount"] == Decimal("12.5000") and rows[9]["cents"] == 1250
    assert rows[9]["note"] == "Ünï 10" and rows[8]["note"] is None
    assert rows[9]["lakewarden_partition"] == "p_20260101"
    assert orders.ids() == list(range(1, 350))  # nothing left the database
