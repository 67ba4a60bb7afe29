"""`sequence drop` on a real server.

Covers `features/sequence/dropping.py`, `features/sequence/twins.py` and `features/sequence/ages.py`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from lakewarden.errors import Barred, LakewardenError, SomeFailed
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dates import Sighting, sightings
from lakewarden.features.sequence.partitions import read_table
from lakewarden.features.sequence.target import database_lease, sequences_of
from lakewarden.lifecycle import failpoints
from lakewarden.records.sequence import RecordedPosition
from tests.features.sequence.old_orders import EVERY, QUERY, OldOrders


@pytest.mark.spark
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


@pytest.mark.spark
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


@pytest.mark.spark
def test_an_archive_that_lost_rows_keeps_what_was_detached(archived: OldOrders) -> None:
    orders = archived
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.lake.catalog.load_table("archive.orders").delete("id = 5")
    orders.configure(grace="0s")
    with pytest.raises(LakewardenError, match="differs from its archive: 99 rows against 98. No row was dropped"):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    assert orders.ids("orders__p_20260101") == list(range(1, 100)) and "p_20260101" in orders.partitions()


@pytest.mark.spark
def test_a_row_that_changes_in_the_moment_of_detaching_is_noticed(archived: OldOrders) -> None:
    """After the first comparison and before the exchange: the partition is attached again."""
    orders = archived
    failpoints.when("sequence.prepared", lambda: orders.shop.run("UPDATE orders SET amount = 1 WHERE id = 5"))
    with pytest.raises(LakewardenError, match="values of amount, cents. It was attached again"):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    assert orders.ids() == EVERY and orders.tables() == ["orders"]


@pytest.mark.spark
@pytest.mark.parametrize("point", ["sequence.compared", "sequence.removed"])
def test_a_row_that_changes_in_the_moment_of_dropping_is_kept(archived: OldOrders, point: str) -> None:
    """After the last comparison that others can disturb, and after the partition itself is gone."""
    orders = archived
    orders.configure(grace="0s")
    orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    failpoints.when(point, lambda: orders.shop.run("UPDATE orders__p_20260101 SET note = 'late' WHERE id = 5"))
    with pytest.raises(LakewardenError, match="values of note. No row was dropped: they are in table orders__p_20"):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    assert orders.shop.run("SELECT note FROM orders__p_20260101 WHERE id = 5") == [("late",)]
    assert orders.all_ids() == EVERY


@pytest.mark.spark
def test_partitions_are_maintained_while_others_are_archived_and_compared(orders: OldOrders) -> None:
    """Both may take hours: neither their leases nor their locks keep `maintain` waiting."""
    orders.shop.run(
        "ALTER TABLE orders REORGANIZE PARTITION p_20991231 INTO (PARTITION p_20990101 VALUES LESS THAN (1000), "
        "PARTITION p_20991231 VALUES LESS THAN MAXVALUE)"
    )
    maintained: list[Any] = []
    for point, verb in (("sequence.staged", "archive"), ("sequence.compared", "drop")):
        failpoints.when(
            point, lambda: maintained.append(orders.warden.sequence.maintain(days=1 + 365 * len(maintained)).apply())
        )
        getattr(orders.warden.sequence, verb)(partition=["p_20260101"]).apply()
        failpoints.arm("")
    assert [report.result["actions"] for report in maintained] == [1, 1]
    assert orders.ids("orders__p_20260101") == list(range(1, 100)) and orders.all_ids() == EVERY


class TestWithoutSpark:
    """What is due, and what goes without an archive."""

    def test_what_is_not_archived_is_kept_unless_told_otherwise(self, orders: OldOrders) -> None:
        planned = orders.warden.sequence.drop()
        assert planned.is_empty and "p_20260101 is kept: it is not archived" in planned.plan.warnings[0]
        orders.warden.sequence.drop(without_archive=True, partition=["p_20260101"]).apply()
        assert orders.ids("orders__p_20260101") == list(range(1, 100))
        orders.configure(grace="0s")
        assert "detached without an archive" in orders.warden.sequence.drop().plan.warnings[0]
        orders.warden.sequence.drop(without_archive=True, partition=["p_20260101"]).apply()
        assert orders.tables() == ["orders"] and orders.ids() == list(range(100, 350))

    def test_retention_judges_the_youngest_row_of_the_partition_itself(self, orders: OldOrders) -> None:
        orders.shop.run("UPDATE orders SET ordered = NOW() - INTERVAL 20 DAY WHERE id = 199")
        assert due(orders) == ["p_20260101", "p_20260301"]
        orders.configure(table={"retention": {"days": 10}})
        assert due(orders) == ["p_20260101", "p_20260201", "p_20260301"]
        orders.configure(table={"retention": {"days": 4000}})
        assert due(orders) == []
        orders.configure(table={"retention": None})
        assert due(orders) == []

    def test_a_partition_without_a_date_is_never_dropped(self, orders: OldOrders) -> None:
        query = "SELECT IF(id < 100, NULL, UNIX_TIMESTAMP(ordered)) FROM orders WHERE id > '?' ORDER BY id LIMIT 1;"
        orders.configure(table={"earliest_utc_timestamp_query": query})
        assert due(orders) == ["p_20260201", "p_20260301"]
        warnings = orders.warden.sequence.drop().plan.warnings
        assert "no date is known for p_20260101; they are kept" in warnings[0]

    def test_a_row_with_a_zero_timestamp_has_no_date(self, orders: OldOrders) -> None:
        orders.shop.run(
            "SET SESSION sql_mode = ''",
            "ALTER TABLE orders ADD seen TIMESTAMP NOT NULL DEFAULT 0",
            "UPDATE orders SET seen = ordered WHERE id <> 199",
        )
        orders.configure(table={"earliest_utc_timestamp_query": QUERY.replace("ordered", "seen")})
        assert due(orders) == ["p_20260101", "p_20260301"]
        assert "no date is known for p_20260201" in orders.warden.sequence.drop().plan.warnings[0]

    def test_without_a_date_query_names_or_recorded_positions_decide_and_rows_are_never_lost(
        self, orders: OldOrders
    ) -> None:
        orders.configure(table={"earliest_utc_timestamp_query": None})
        note, *kept = orders.warden.sequence.drop(without_archive=True).plan.warnings
        assert "has no date query: recorded positions, or names and one period more" in note
        assert [each.split(" ")[0].split(".")[-1] for each in kept] == ["p_20260101", "p_20260201"]
        assert all("is kept: no date query dates it" in each for each in kept)  # the last one is followed by 2099
        with Reading(sequences_of(orders.warden.ground.settings, None)) as connection:
            key = database_lease(read_table(connection, "orders"))
        for month, position in ((9, 150), (10, 190), (11, 250)):
            at = RecordedPosition(datetime(2026, month, 1, tzinfo=UTC), (position,))
            orders.warden.ground.state.sequence.record(key, at)
        orders.warden.ground.clock = lambda: datetime(2026, 11, 20, tzinfo=UTC)
        _, *kept = orders.warden.sequence.drop(without_archive=True).plan.warnings
        assert [each.split(" ")[0].split(".")[-1] for each in kept] == ["p_20260101"]

    def test_maintain_does_not_date_detached_partitions_by_rows_of_others(self, orders: OldOrders) -> None:
        sequences = orders.warden.ground.settings.sequences
        assert sequences is not None

        def seen() -> list[Sighting]:
            with Reading(sequences) as connection:
                table = read_table(connection, "orders")
                return sightings(connection, sequences, table, table.partitions, ())

        before = seen()
        orders.warden.sequence.drop(without_archive=True, partition=["p_20260201"]).apply()
        assert [each.position for each in before] == [(100,), (200,), (300,)]
        assert seen() == before[1:]

    def test_a_noop_wins(self, orders: OldOrders) -> None:
        orders.configure(noop=True)
        with pytest.raises(Barred):
            orders.warden.sequence.drop(without_archive=True).apply()
        assert orders.ids() == EVERY

    def test_through_the_command_line_client(self, orders: OldOrders) -> None:
        orders.configure(dburl=None, mariadb=orders.shop.client)
        orders.warden.sequence.drop(without_archive=True).apply()
        assert orders.ids() == list(range(300, 350)) and orders.all_ids() == EVERY
        orders.warden.sequence.restore().apply()
        assert orders.ids() == EVERY and orders.tables() == ["orders"]

    def test_a_table_that_is_not_lakewardens_is_left_alone(self, orders: OldOrders) -> None:
        orders.shop.run("CREATE TABLE orders__p_20260101 (id INT) COMMENT 'lakewarden: please keep'")
        with pytest.raises(LakewardenError, match="orders__p_20260101 that is not Lakewarden's"):
            orders.warden.sequence.drop(without_archive=True, partition=["p_20260101"]).apply()
        assert orders.ids() == EVERY

    def test_no_statement_waits_longer_than_a_moment_for_a_lock(self, orders: OldOrders) -> None:
        """By what is sent to the server. How long a writer waits is measured in `bench/sequence.py`."""
        orders.configure(grace="0s")
        shop, only = orders.shop, {"without_archive": True, "partition": ["p_20260101"]}
        with shop.listening() as sent:
            for _ in range(2):
                orders.warden.sequence.drop(**only).apply()
                orders.warden.sequence.restore().apply()
            orders.warden.sequence.drop(**only).apply()
            orders.warden.sequence.drop(**only).apply()
        assert orders.tables() == ["orders"] and "p_20260101" not in orders.partitions()
        ours = {session for session, text in sent if "max_statement_time=0" in text}
        assert ours >= {session for session, text in sent if "orders" in text}
        texts = [text for session, text in sent if session in ours and f"`{shop.name}`.`orders`" in text]
        changing = [text for text in texts if not text.startswith(("SELECT", "CREATE TABLE"))]
        assert {re.sub(r"`[^`]*`(\.`[^`]*`)?", "…", text) for text in changing} == {
            "SET STATEMENT max_statement_time = 0.5 FOR ALTER TABLE … WAIT 1 EXCHANGE PARTITION … WITH TABLE …",
            "LOCK TABLES … WRITE, … WRITE WAIT 1",
            "ALTER TABLE … WAIT 1 EXCHANGE PARTITION … WITH TABLE …",
            "LOCK TABLES … WRITE WAIT 1",
            "ALTER TABLE … WAIT 1 DROP PARTITION …",
        }

    def test_an_installation_without_a_lake(self, orders: OldOrders, install: Any) -> None:
        tables = {"orders": {"retention": {"days": 30}, "earliest_utc_timestamp_query": QUERY}}
        with install(tables=tables) as warden:
            assert warden.sequence.drop().is_empty
            warden.sequence.drop(without_archive=True).apply()
            assert sorted(int(row["id"]) for row in warden.sequence.read()) == EVERY
            with pytest.raises(LakewardenError, match="no lake"):
                warden.sequence.archive()

    @pytest.mark.parametrize("is_detached", [True, False], ids=["detached", "being detached"])
    def test_what_another_installation_archived_is_not_dropped_unseen(
        self, orders: OldOrders, install: Any, is_detached: bool
    ) -> None:
        """One without a lake cannot compare it."""
        tables = {"orders": {"retention": {"days": 30}, "earliest_utc_timestamp_query": QUERY}}
        with install(tables=tables, grace="0s") as warden:
            only = {"without_archive": True, "partition": ["p_20260101"]}
            warden.sequence.drop(**only).apply()
            stored = warden.sequence.drop(**only)
            (found,) = orders.shop.run(
                "SELECT TABLE_COMMENT FROM information_schema.TABLES "
                "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders__p_20260101'"
            )
            comment = found[0].replace('"archived": false', '"archived": true')
            comment = comment if is_detached else re.sub('"since": "[^"]*"', '"since": null', comment)
            orders.shop.run(f"ALTER TABLE orders__p_20260101 COMMENT = '{comment}'")
            planned = warden.sequence.drop(**only)
            assert planned.is_empty and "no lake is configured to compare it with" in planned.plan.warnings[0]
            with pytest.raises(LakewardenError, match="was archived since this was planned"):
                stored.apply()
        assert orders.ids("orders__p_20260101") == list(range(1, 100))


def due(orders: OldOrders) -> list[str]:
    actions = orders.warden.sequence.drop(without_archive=True).plan.actions
    return [str(action.arguments["partition"]) for action in actions]
