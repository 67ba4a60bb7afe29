"""`sequence drop` on a real server.

Covers `features/sequence/dropping.py`, `features/sequence/twins.py` and `features/sequence/ages.py`.
"""

from __future__ import annotations

import pytest

from lakewarden.errors import SomeFailed
from tests.features.sequence.old_orders import EVERY, OldOrders

pytestmark = pytest.mark.spark


def test_archived_partitions_are_detached_compared_and_dropped_after_their_grace(archived: OldOrders) -> None:
    orders = archived
    planned = orders.warden.sequence.drop()
    assert [action.verb for action in planned.plan.actions] == ["detach"] * 3
    assert orders.ids() == EVERY  # only planned

    assert planned.apply().result["detached"] == 3
    assert orders.ids() == list(range(300, 350)) and orders.ids("orders__p_20260201") == list(range(100, 200))
    assert orders.all_ids() == EVERY
    assert orders.warden.sequence.drop().is_empty  # the grace has not ended
    assert orders.warden.sequence.archive().is_empty

    orders.configure(grace="0s")
    planned = orders.warden.sequence.drop()
    assert [action.verb for action in planned.plan.actions] == ["drop"] * 3
    assert planned.apply().result["dropped"] == 3
    assert orders.tables() == ["orders"] and orders.partitions() == ["p_20991231"]
    assert orders.all_ids() == EVERY
    assert orders.warden.sequence.drop().is_empty and orders.warden.sequence.archive().is_empty


def test_a_row_that_changed_since_is_noticed_and_nothing_is_dropped(archived: OldOrders) -> None:
    orders = archived
    orders.shop.run("UPDATE orders SET note = 'changed' WHERE id = 150")
    with pytest.raises(SomeFailed, match="p_20260201 differs from its archive: values of note"):
        orders.warden.sequence.drop().apply()
    assert "orders__p_20260201" not in orders.tables() and 150 in orders.ids()
    assert orders.all_ids() == EVERY

    orders.warden.sequence.archive(again=True, partition=["p_20260201"]).apply()
    assert [row["note"] for row in orders.archived() if row["id"] == 150] == ["changed"]
    assert len(orders.archived()) == 299
    orders.warden.sequence.drop().apply()
    assert orders.ids() == list(range(300, 350)) and orders.all_ids() == EVERY
