"""Backfills that are held back. Covers `features/backfill/pace.py`."""

from __future__ import annotations

import signal
import time
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import BadValue, Interrupted
from lakewarden.features.backfill import throttle
from lakewarden.features.backfill.pace import Pace
from lakewarden.lifecycle import failpoints
from tests.features.backfill.shop import SQL, Shop

HEALTHY = {"healthy": "SELECT ok FROM {db}.health", "every_seconds": 0.1}


def say(shop: Shop, *answers: bool | None) -> None:
    """Make the table that the question reads say this."""
    if shop.lake.catalog.table_exists("shop.health"):
        shop.lake.catalog.drop_table("shop.health")
    table = shop.lake.catalog.create_table("shop.health", pa.schema([("ok", pa.bool_())]))
    table.append(pa.table({"ok": pa.array(answers, pa.bool_())}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "throttle: needs share or healthy"),
        ({"share": 0}, "throttle.share: Input should be greater than 0"),
        ({"healty": "SELECT true"}, "unknown key throttle.healty"),
        ({"healthy": "SELECT ok FROM {db}.nowhere"}, "throttle.healthy: no table shop.nowhere in lake 'main'"),
        ({"healthy": "SELECT 1, 2"}, "throttle.healthy: the SELECT has 2 columns"),
        ({"healthy": "SELECT {id}"}, "throttle.healthy: the placeholder {id} has no value"),
        ({"healthy": "DELETE FROM {db}.orders"}, "throttle.healthy: "),
    ],
)
def test_mistakes_are_named_at_registration(shop: Shop, given: dict[str, Any], message: str) -> None:
    shop.order(1)
    with pytest.raises(BadValue) as error:
        shop.register(throttle=given)
    assert message in error.value.message and "003_totals.backfill.meta: " in error.value.message


@pytest.mark.spark
def test_it_waits_until_all_is_well_and_says_why(shop: Shop) -> None:
    """What is not known is not healthy."""
    shop.order(*range(6))
    say(shop)
    shop.register(throttle=HEALTHY)
    answers = iter([(None,), (True, True), (False,), (True,)])
    notes: list[str] = []

    def look() -> None:
        status = shop.status()
        assert status.status == "running" and status.held_by
        notes.extend(status.notes)
        say(shop, *next(answers))

    failpoints.when("backfill.waiting", look, times=4)
    shop.run()
    assert notes == [
        f"waiting: throttle: the question healthy {problem}"
        for problem in ("gives 0 rows, not one", "is NULL", "gives 2 rows, not one", "is false")
    ]
    assert (shop.ids(), shop.status().notes) == (list(range(6)), [])


@pytest.mark.spark
@pytest.mark.own_processes
def test_sigterm_while_it_waits_leaves_it_paused(shop: Shop) -> None:
    shop.order(*range(6))
    say(shop, False)
    shop.register(throttle=HEALTHY)
    process = shop.lake.start("backfill", "run", "--database", "shop", "--version", "3")
    until = time.monotonic() + 60
    while not (notes := shop.status().notes) and time.monotonic() < until:
        time.sleep(0.1)
    assert notes == ["waiting: throttle: the question healthy is false"]
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "stopped after 0 of 2 actions" in said
    assert f"waiting: {notes[0].removeprefix('waiting: ')}" in said
    assert (shop.status().status, shop.status().notes, shop.ids()) == ("paused", [], [])
    say(shop, True)
    shop.warden.backfill.resume(database="shop", version="3")
    assert (shop.status().status, shop.ids()) == ("completed", list(range(6)))


@pytest.mark.spark
def test_a_pause_is_heard_while_it_waits(shop: Shop) -> None:
    shop.order(*range(6))
    say(shop, True)
    shop.register(throttle=HEALTHY | {"every_seconds": 0.01, "engine": "spark"})
    failpoints.when("backfill.published", lambda: say(shop, False))
    failpoints.when("backfill.waiting", lambda: shop.warden.backfill.pause(database="shop", version="3"))
    with pytest.raises(Interrupted, match="was paused after 1 of 2"):
        shop.run()
    assert (shop.status().status, shop.ids(), shop.status().notes) == ("paused", [0, 1, 2], [])


@pytest.mark.spark
def test_a_share_of_time_and_a_rate_that_does_not_count_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is a job of its own here."""
    shop.order(*range(9))
    sql = SQL.replace("SELECT id", "SELECT id + 0 * {checkpoint_id}")
    shop.register(sql, throttle={"share": 0.25}, initial_checkpoint={"id": -1})
    waited: list[tuple[float, str]] = []
    monkeypatch.setattr(throttle, "wait", lambda lake, seconds, why: waited.append((seconds, why)))
    shop.run()
    steps = shop.warden.ground.journal.get(shop.status().operation).steps
    took = [step.facts["seconds"] for step in steps]
    assert [seconds for seconds, _ in waited] == pytest.approx([0, 3 * took[0], 3 * took[1]], rel=0.5)
    assert waited[0][1] == "throttle: at most 25% of the time is spent writing"
    assert shop.status().rate == pytest.approx(9 / sum(took), rel=0.1)


def test_each_batch_has_its_share_of_the_time_of_a_job() -> None:
    pace = Pace()
    assert str(pace) == ""
    pace.job(8.0, 400, 800)
    assert pace.batch(100, 0.5) == 2.5
    assert str(pace) == "40 rows/s, 0:00:18 left"
    assert pace.batch(300, 0.5) == 6.5
    assert (pace.rows, pace.seconds, pace.left) == (400, 9.0, 400)
