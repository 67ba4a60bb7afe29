"""Which snapshots operations under way need, from every kind of journal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.in_use import snapshots_in_use
from lakewarden.lifecycle.journal import Journal, Progress
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.requirement import RefAt, SnapshotKept, TableIs
from lakewarden.lifecycle.states import State
from tests.state.records import NOON, an_operation


def reading(table: str, *snapshots: int, main: int | None = None) -> Action:
    uuid = TableIs(table, f"uuid-of-{table}")
    kept = tuple(SnapshotKept(table, snapshot) for snapshot in snapshots)
    return Action("read", table, table, f"read {snapshots}", {}, requires=(uuid, RefAt(table, "main", main), *kept))


def begin(journal: Journal, id: str, *actions: Action, state: State = State.RUNNING) -> None:
    journal.add(an_operation(id, Plan("some.kind", "all", actions)))
    if state is not State.PLANNED:
        journal.move(id, State.RUNNING, NOON)
    if state not in (State.PLANNED, State.RUNNING):
        journal.move(id, state, NOON)


def test_by_name_and_by_uuid_for_all_tables_at_once(journal: Journal) -> None:
    begin(journal, "one", reading("a.b", 1, 2, main=3), reading("c.d", 9))
    begin(journal, "two", reading("a.b", 4))
    assert snapshots_in_use(journal) == {
        "a.b": {1: "one", 2: "one", 3: "one", 4: "two"},
        "uuid-of-a.b": {1: "one", 2: "one", 3: "one", 4: "two"},
        "c.d": {9: "one"},
        "uuid-of-c.d": {9: "one"},
    }


@pytest.mark.parametrize(
    ("state", "needs"),
    [
        (State.PLANNED, False),
        (State.RUNNING, True),
        (State.VERIFYING, True),
        (State.PAUSED, True),
        (State.FAILED, True),  # it can be resumed
        (State.CANCELLED, False),
    ],
)
def test_only_operations_under_way_count(journal: Journal, state: State, needs: bool) -> None:
    begin(journal, "one", reading("a.b", 1), state=state)
    assert ("a.b" in snapshots_in_use(journal)) is needs


def test_a_failed_operation_keeps_what_it_reads_until_another_takes_its_place(journal: Journal) -> None:
    begin(journal, "op-1", reading("a.b", 1, main=3), state=State.FAILED)
    assert snapshots_in_use(journal)["a.b"] == {1: "op-1"}  # not where it would have committed
    begin(journal, "op-2", reading("a.b", 2), state=State.PLANNED)
    assert snapshots_in_use(journal)["a.b"] == {1: "op-1"}
    begin(journal, "op-3", reading("a.b", 2), state=State.FAILED)
    assert snapshots_in_use(journal)["a.b"] == {2: "op-3"}


def test_no_number_of_operations_makes_a_failed_one_forgotten(journal: Journal) -> None:
    begin(journal, "op-1", reading("a.b", 1), state=State.FAILED)
    begin(journal, "op-2", reading("c.d", 2), state=State.FAILED)
    for number in range(201):
        begin(journal, f"failed-{number}", Action("x", "e.f", "e.f", "x", {}), state=State.FAILED)
        journal.add(an_operation(f"planned-{number}", Plan("some.kind", "all", (reading("a.b", 1),))))
    assert snapshots_in_use(journal)["a.b"] == {1: "op-1"}
    begin(journal, "op-3", reading("a.b", 3), state=State.CANCELLED)
    assert snapshots_in_use(journal) == {"c.d": {2: "op-2"}, "uuid-of-c.d": {2: "op-2"}}


def test_the_last_operation_of_a_backfill_is_found_by_its_exact_name(journal: Journal) -> None:
    for id, name in (("op-1", "shop:a_1"), ("op-2", "shop:A_1"), ("op-3", "shop:ab1")):
        begin(journal, id, replace(reading("a.b", 1), arguments={"backfill": name}), state=State.FAILED)
    begin(journal, "op-4", replace(reading("a.b", 1), arguments={"backfill": "shop:a_1"}), state=State.PLANNED)
    found = [journal.last_begun(["some.kind"], "backfill", name) for name in ("shop:a_1", "shop:A_1", "shop:b", "a_1")]
    assert [record and record.id for record in found] == ["op-1", "op-2", None, None]


def test_what_is_verified_is_needed_no_more(journal: Journal) -> None:
    begin(journal, "one", reading("a.b", 1), reading("c.d", 2))
    journal.step("one", replace(journal.get("one").steps[0], progress=Progress.DONE))
    assert set(snapshots_in_use(journal)) >= {"a.b", "c.d"}  # done, and still to be looked at
    journal.verified("one", [journal.get("one").steps[0]], NOON)
    assert snapshots_in_use(journal) == {"c.d": {2: "one"}, "uuid-of-c.d": {2: "one"}}


def test_an_operation_that_asks_is_not_in_its_own_way(journal: Journal) -> None:
    begin(journal, "one", reading("a.b", 1, 2))
    begin(journal, "two", reading("a.b", 2, 3))
    assert snapshots_in_use(journal, besides="one")["a.b"] == {2: "two", 3: "two"}
    assert snapshots_in_use(journal, besides="two")["a.b"] == {1: "one", 2: "one"}
