"""Rows that an erasure request hid while a backfill ran, and that come back when it is withdrawn."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakewarden.engine.catalog.snapshot_removal import BACKFILL
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.engine.rows.column_texts import column_texts
from lakewarden.errors import Conflict
from lakewarden.features.backfill import withdrawn
from tests.features.backfill.shop import Shop

pytestmark = pytest.mark.spark


def hide(shop: Shop, *regions: str, ignore_case: bool = False) -> str:
    asked = shop.warden.erasure.request("shop.orders", key="region", value=[*regions], ignore_case=ignore_case)
    return str(asked.id)


def withdraw(shop: Shop, request: str) -> None:
    shop.warden.erasure.withdraw(request).apply()


def test_rows_that_were_hidden_are_late_once_their_request_is_withdrawn(shop: Shop) -> None:
    shop.order(*range(4))
    shop.order(*range(10, 14), region="Gone")
    shop.order(20, region="gone")
    request, other = hide(shop, "gone", ignore_case=True), hide(shop, "north")
    withdraw(shop, other)
    shop.register()
    shop.run()
    assert (shop.ids(), shop.status().late_rows) == ([*range(4)], 0)
    shop.order(4)
    shop.order(15, region="gone")
    shop.run(again=True)
    assert shop.ids() == [*range(5)]
    withdraw(shop, request)
    status = shop.status()
    assert (status.status, status.late_rows) == ("completed", 6)
    assert status.notes == [f"rows that {request} hid while it ran are late: withdrawn since"]
    shop.order(16, region="gone")
    planned = shop.warden.backfill.run(database="shop", version="3", again=True)
    assert planned.plan.warnings == (f"shop_003: rows that {request} hid while it ran count as new: withdrawn since",)
    shop.run(again=True, max_batches=1)
    assert len(shop.ids()) == 8
    shop.order(99)
    shop.run()
    assert shop.ids() == [*range(5), *range(10, 14), 15, 16, 20]
    assert (shop.status().late_rows, shop.status().notes) == (1, [])
    shop.run(again=True)
    assert shop.ids() == [*range(5), *range(10, 14), 15, 16, 20, 99]
    assert shop.warden.backfill.run(database="shop", version="3", again=True).plan.warnings == (
        "shop_003: no rows arrived since",
    )


def test_deletes_that_hid_rows_do_not_make_them_come_twice(shop: Shop) -> None:
    shop.order(*range(3))
    shop.order(10, 11, region="gone")
    request = hide(shop, "gone")
    shop.warden.erasure.hide("shop.orders").apply()
    shop.register()
    shop.run()
    withdraw(shop, request)
    assert shop.status().late_rows == 2
    shop.run(again=True)
    assert (shop.ids(), shop.status().late_rows) == ([0, 1, 2, 10, 11], 0)


@pytest.mark.parametrize("arrived", [(), (20,)])
def test_rows_that_are_no_longer_hidden_pass_the_gates_of_a_branch(shop: Shop, arrived: tuple[int, ...]) -> None:
    shop.order(*range(3))
    shop.order(10, 11, region="gone")
    request = hide(shop, "gone")
    shop.register(mode="branch")
    shop.run()
    withdraw(shop, request)
    if arrived:
        shop.order(*arrived)
    assert shop.status().late_rows == 2 + len(arrived)
    shop.run(again=True)
    assert (shop.ids(), shop.status().late_rows) == ([*range(3), 10, 11, *arrived], 0)


def test_what_was_hidden_during_a_part_of_it_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.order(*range(3), region="gone")
    shop.order(*range(3, 6))
    shop.order(7, region="gone")
    shop.register()
    shop.run(max_batches=1)
    request, unknown = hide(shop, "gone"), hide(shop, "nobody")
    shop.run()
    assert shop.ids() == [*range(6)]
    withdraw(shop, unknown)
    assert (shop.status().late_rows, shop.status().notes) == (0, [])
    withdraw(shop, request)
    searched: list[object] = []

    def counted(*of: Any) -> Any:
        searched.append(of)
        return column_texts(*of)

    monkeypatch.setattr(withdrawn, "column_texts", counted)
    status = shop.status()
    assert (status.late_rows, len(searched)) == (None, 3)  # files, each once for all requests
    assert f"erasure request {request} was withdrawn and hid rows of main.shop.orders while a part" in status.notes[0]
    with pytest.raises(Conflict, match="which of them are missing is not known"):
        shop.run(again=True)
    assert shop.run() == {"actions": 0, "subjects": 0}
    shop.warden.backfill.undo(database="shop", version="3").apply()
    shop.run()
    assert (shop.ids(), shop.status().late_rows) == ([*range(6), 7], 0)


def test_a_request_that_came_after_the_run_hid_nothing_of_it(shop: Shop) -> None:
    shop.order(1, 2)
    shop.order(3, region="gone")
    shop.register()
    shop.run()
    withdraw(shop, hide(shop, "gone"))
    assert (shop.status().late_rows, shop.status().notes) == (0, [])
    shop.order(20)
    shop.run(again=True)
    shop.order(21, region="gone")
    withdraw(shop, hide(shop, "gone"))
    assert (shop.status().late_rows, shop.status().notes) == (1, [])
    shop.run(again=True, max_batches=1)
    shop.run()
    shop.order(22)
    assert (shop.status().late_rows, shop.status().notes) == (1, [])
    shop.run(again=True)
    assert shop.ids() == [1, 2, 3, 20, 21, 22]


def test_a_request_that_hid_rows_of_a_later_run_only_is_refused(shop: Shop) -> None:
    """It came between two runs, and was still open when the second one was planned."""
    shop.order(1, 2)
    shop.register()
    shop.run()
    shop.order(3, 4, region="gone")
    shop.order(5)
    request = hide(shop, "gone")
    shop.run(again=True)
    withdraw(shop, request)
    assert shop.ids() == [1, 2, 5]
    assert f"erasure request {request} was withdrawn and hid rows" in shop.status().notes[0]


def test_rows_that_were_hidden_when_it_was_planned_are_not_lost(shop: Shop) -> None:
    """The last batch ends where the plan says, and rows behind that were hidden then."""
    shop.order(*range(4))
    shop.order(10, 11, region="gone")
    request = hide(shop, "gone")
    shop.register()
    planned = shop.warden.backfill.run(database="shop", version="3")
    assert planned.plan.id == shop.warden.backfill.run(database="shop", version="3").plan.id
    withdraw(shop, request)
    planned.apply()
    status = shop.status()
    assert (shop.ids(), status.status, status.late_rows) == ([*range(4)], "completed", None)
    assert f"erasure request {request} was withdrawn and hid rows of main.shop.orders while a part" in status.notes[0]
    with pytest.raises(Conflict, match="which of them are missing is not known"):
        shop.run(again=True)
    shop.warden.backfill.undo(database="shop", version="3").apply()
    shop.run()
    assert shop.ids() == [*range(4), 10, 11]


def test_each_backfill_of_a_run_began_when_it_was_planned(shop: Shop) -> None:
    """A request that ended while the first one was written hid rows of the second one, too: its batches were known."""
    shop.order(*range(3))
    for version in ("003", "004"):
        shop.write(version=version)
    shop.warden.backfill.register(database="shop")
    planned_after = datetime.now(UTC)
    planned = shop.warden.backfill.run(database="shop", all=True)
    planned_before = datetime.now(UTC)
    planned.apply()
    for snapshot in shop.lake.catalog.load_table("shop.totals").metadata.snapshots:
        (stamp,) = (text for key, text in notes_of(snapshot).items() if key.startswith(BACKFILL))
        assert planned_after <= datetime.fromisoformat(json.loads(stamp)["began"]) <= planned_before
