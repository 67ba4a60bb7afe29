"""Where a target is: what a purge changes in stamps, and what is known once others have rolled back and expired.

Covers `engine/catalog/positions.py`.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakewarden.engine.catalog.snapshot_removal import without_revealing
from lakewarden.engine.sql.tuples import TupleColumns
from lakewarden.features.backfill.position import Position
from lakewarden.features.erasure.purge import _mentions
from lakewarden.features.erasure.requests.asked_values import AskedValues
from lakewarden.records.erasure import HiddenKey, KeyAsked
from tests.features.backfill.shop import TOTALS, Shop
from tests.walks.others import Others


@pytest.mark.parametrize(
    ("kind", "erased", "checkpoint", "forgotten"),
    [
        ("string", "jürgen@example.org", "jürgen@example.org", True),
        ("string", 'a "quoted" name', 'a "quoted" name', True),
        ("string", "Ann", "Ann", True),
        ("string", "Ann", "Anna", False),
        ("long", "42", 42, True),
        ("long", "42", 421, False),
    ],
)
def test_a_checkpoint_is_forgotten_if_it_is_an_erased_value(
    kind: str, erased: str, checkpoint: str | int, forgotten: bool
) -> None:
    columns = TupleColumns(("region", "id"), (kind, "long"))
    stamp = Position(1, 1, columns.dump((checkpoint, 7)), {"shop.orders": "42"}, None, 42, 42, "p", "s", 42)
    asked = AskedValues(KeyAsked("main.shop.orders", "u", "region", 1, kind), frozenset(), frozenset([erased]))
    reveals = _mentions([HiddenKey(1, kind, [erased])], [asked])
    changed = without_revealing(stamp.text, reveals)
    as_property = without_revealing(json.dumps({"position": json.loads(stamp.text), "at": 42}), reveals)
    for found in (Position.read(changed), Position(**json.loads(as_property)["position"])):
        assert (found.forgotten, found.checkpoint is None, found.rows) == (forgotten, forgotten, 42)


OTHERS = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)


@pytest.fixture
def others(shop: Shop) -> Others:
    return Others(shop.lake, "shop.totals")


def append(shop: Shop, times: int = 1) -> None:
    for _ in range(times):
        shop.lake.catalog.load_table("shop.totals").append(OTHERS)


def written(shop: Shop) -> list[int | None]:
    return [id for id in shop.ids() if id != 100]


def snapshot_of_batch(shop: Shop, number: int) -> int:
    return int(shop.lake.catalog.load_table("shop.totals").metadata.snapshots[number - 1].snapshot_id)


@pytest.mark.spark
def test_rolled_back_and_expired_by_others(shop: Shop, others: Others) -> None:
    shop.order(*range(9))
    shop.register()
    shop.run()
    others.roll_back(snapshot_of_batch(shop, 1))
    append(shop, 2)
    others.expire()
    shop.lose_control_database()
    assert shop.status().notes == ["the target was rolled back behind batch 3: run it with --again"]
    assert (shop.status().status, shop.status().rows_processed, written(shop)) == ("paused", 3, [0, 1, 2])
    shop.run(again=True)
    assert (written(shop), shop.status().status) == (list(range(9)), "completed")


@pytest.mark.spark
def test_an_undo_that_others_rolled_back_and_expired(shop: Shop, others: Others) -> None:
    shop.order(*range(6))
    shop.register()
    shop.run()
    complete = shop.lake.head("shop.totals")
    shop.warden.backfill.undo(database="shop", version="3").apply()
    others.roll_back(complete)
    append(shop, 2)
    others.expire()
    shop.lose_control_database()
    assert (shop.status().status, shop.run()) == ("completed", {"actions": 0, "subjects": 0})
    assert written(shop) == list(range(6))


@pytest.mark.spark
def test_a_normal_life_is_never_refused(shop: Shop, others: Others) -> None:
    """Appends, compaction and expiry by others between all batches, and Lakewarden's own."""
    shop.order(*range(12))
    shop.register()
    for round in range(4):
        shop.run(max_batches=1)
        for _ in range(2):
            append(shop, 3)
            others.compact()
            others.expire()
        if round == 1:
            shop.warden.compaction.compact("shop.totals", rewrite_all=True).apply()
            append(shop, 2)
            expire = shop.warden.retention.expire
            expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s").apply()
        assert shop.status().rows_processed == 3 * round + 3
    shop.lose_control_database()
    assert (written(shop), shop.status().status) == (list(range(12)), "completed")


@pytest.mark.spark
def test_rolled_back_to_a_version_whose_parent_our_own_expiry_took(shop: Shop, others: Others) -> None:
    """PyIceberg's expiry leaves no parent at all, as if the version were the first one."""
    shop.order(*range(6))
    shop.register()
    shop.run()
    append(shop)
    shop.warden.retention.expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s").apply()
    append(shop)
    before = shop.lake.head("shop.totals")
    shop.order(6)
    shop.run(again=True)
    others.roll_back(before)
    shop.lose_control_database()
    assert shop.status().rows_processed == 6
    shop.run(again=True)
    assert (written(shop), shop.status().status) == (list(range(7)), "completed")
