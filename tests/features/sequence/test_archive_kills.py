"""Runs that are killed at every step of archiving, detaching, restoring and dropping: the next one completes.

No row is ever in neither place, and none is archived twice (invariants 6 and 9).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.lifecycle import failpoints
from tests import killing
from tests.features.sequence.old_orders import EVERY, OldOrders

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST = ("--partition", "p_20260101")


def points_of(orders: OldOrders, trace: Path, *command: str) -> list[str]:
    trace.unlink(missing_ok=True)
    killing.run(orders.lake, *command, failpoints=f"trace:{trace}")
    return trace.read_text().split()


def chosen(points: list[str], soaking: bool) -> list[tuple[int, str]]:
    """Every point in `make soak`, else those of this noun."""
    return [(number, point) for number, point in killing.chosen(points) if soaking or point.startswith("sequence.")]


def test_detaching_restoring_and_dropping(archived: OldOrders, tmp_path: Path, soaking: bool) -> None:
    """Drop and restore need no Spark, so each kill is one short process."""
    orders, trace = archived, tmp_path / "trace"
    rows = orders.shop.run("SELECT * FROM orders ORDER BY id")
    detach, restore = ("sequence", "drop", "--apply", *FIRST), ("sequence", "restore", *FIRST)
    detaching, restoring = points_of(orders, trace, *detach), points_of(orders, trace, *restore)
    assert {"sequence.created", "sequence.prepared", "sequence.exchanged", "sequence.compared"} < {*detaching}
    assert {"sequence.unmarked", "sequence.attached"} < {*restoring}
    for number, point in chosen(detaching, soaking):
        killing.kill(orders.lake, number, point, *detach)
        killing.bury(orders.lake)
        assert orders.all_ids() == EVERY, point
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
        assert orders.ids("orders__p_20260101") == list(range(1, 100)), point
        orders.warden.sequence.restore().apply()
        assert orders.shop.run("SELECT * FROM orders ORDER BY id") == rows, point
    for number, point in chosen(restoring, soaking):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
        killing.kill(orders.lake, number, point, *restore)
        killing.bury(orders.lake)
        assert orders.all_ids() == EVERY, point
        orders.warden.sequence.restore().apply()
        assert orders.shop.run("SELECT * FROM orders ORDER BY id") == rows, point
        assert orders.tables() == ["orders"], point

    orders.configure(grace="0s")
    for point, name in (("sequence.compared", "p_20260101"), ("sequence.removed", "p_20260201")):
        orders.warden.sequence.drop(partition=[name]).apply()
        killing.kill(orders.lake, point, point, "sequence", "drop", "--apply", "--partition", name)
        killing.bury(orders.lake)
        assert orders.all_ids() == EVERY, point
        orders.warden.sequence.drop(partition=[name]).apply()
        assert name not in orders.partitions() and orders.tables() == ["orders"], point
    assert orders.all_ids() == EVERY


def test_archiving(orders: OldOrders, tmp_path: Path, soaking: bool) -> None:
    """Each kill starts a Spark of its own: `make test` kills where most is at stake."""
    if soaking:
        points = points_of(orders, tmp_path / "trace", "sequence", "archive", *FIRST)
        assert points.count("sequence.published") == 1
        numbers: list[tuple[int | str, str]] = [*killing.chosen(points)]
    else:
        numbers = [("sequence.published", "sequence.published")]
    for number, point in numbers:
        if "archive" in {name for (name,) in orders.lake.catalog.list_namespaces()}:
            for table in orders.lake.catalog.list_tables("archive"):
                orders.lake.catalog.drop_table(table)
        killing.kill(orders.lake, number, point, "sequence", "archive", *FIRST)
        killing.bury(orders.lake)
        orders.warden.sequence.archive().apply()
        assert [int(row["id"]) for row in orders.archived()] == list(range(1, 300)), point
        assert orders.warden.sequence.archive().is_empty, point
        assert branches(orders) == ["main"], point
        orders.warden.operation.resume()  # the killed one: it finds its work done
        assert [int(row["id"]) for row in orders.archived()] == list(range(1, 300)), point
        assert branches(orders) == ["main"], point


def test_what_a_killed_run_staged_is_removed(orders: OldOrders) -> None:
    """By the next one, also if it has nothing to archive."""
    killing.kill(orders.lake, "sequence.staged", "sequence.staged", "sequence", "archive", *FIRST)
    assert len(branches(orders)) == 1 and branches(orders) != ["main"]
    killing.bury(orders.lake)
    orders.configure(table={"retention": {"days": 30_000}})
    assert orders.warden.sequence.archive().is_empty
    orders.warden.sequence.archive().apply()
    assert branches(orders) == [] and orders.archived() == []
    orders.configure()
    orders.warden.operation.resume()
    assert [int(row["id"]) for row in orders.archived()] == list(range(1, 100))


def test_what_a_living_run_stages_is_not(orders: OldOrders) -> None:
    def other() -> None:
        orders.warden.sequence.archive(partition=["p_20260201"]).apply()
        seen.append(len(branches(orders)))

    seen: list[int] = []
    failpoints.when("sequence.staged", other)
    orders.warden.sequence.archive(partition=["p_20260101"]).apply()
    assert seen == [2] and branches(orders) == ["main"]
    assert [int(row["id"]) for row in orders.archived()] == list(range(1, 200))


def branches(orders: OldOrders) -> list[str]:
    return [*orders.lake.catalog.load_table("archive.orders").metadata.refs]
