"""Evidence about requests for erasure in the control database, and how purges and withdrawals exclude each other.

Covers `state/evidence.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from lakewarden.errors import Conflict, NotFound, StalePlan
from lakewarden.records.erasure import ErasureState, Evidence, EvidenceKind
from lakewarden.state.database import Database
from lakewarden.state.leases import SqlLeases
from lakewarden.state.tombstones import SqlTombstones
from tests.state.test_tombstones import NOW, asked

CLOSED, OPEN, WITHDRAWN = ErasureState.CLOSED, ErasureState.OPEN, ErasureState.WITHDRAWN


@pytest.fixture
def store(database: Database) -> SqlTombstones:
    with database.begin() as connection:
        connection.execute(text("DELETE FROM erasure_requests"))
        connection.execute(text("DELETE FROM erasure_evidence"))
    return SqlTombstones(database)


def told(kind: EvidenceKind, *requests: str, operation: str = "op-1", uuid: str = "uuid-1") -> Evidence:
    document = {"files": ["email=a@x.org/1.parquet"]}
    return Evidence(kind, "main.crm.people", uuid, operation, "a", NOW, requests, document)


def intent(*requests: str, operation: str = "op-1", uuid: str = "uuid-1") -> Evidence:
    return told(EvidenceKind.INTENT, *requests, operation=operation, uuid=uuid)


def intents(store: SqlTombstones) -> list[Evidence]:
    return list(store.evidence([EvidenceKind.INTENT]))


class TestReading:
    def test_many_requests_each_where_it_was_named(self, store: SqlTombstones) -> None:
        ids = [asked(store, f"p{n}@x.org") for n in range(5)]
        wanted = [ids[3], ids[0], ids[3], ids[4]]
        assert store.many(wanted) == [store.get(id) for id in wanted]
        assert store.many([]) == []
        with pytest.raises(NotFound, match="er-nobody"):
            store.many([ids[0], "er-nobody"])

    def test_more_than_a_query_is_given(self, store: SqlTombstones) -> None:
        ids = [asked(store) for _ in range(3)] * 700
        assert [request.id for request in store.many(ids)] == ids

    def test_documents_are_left_unread(self, store: SqlTombstones, database: Database) -> None:
        id = asked(store, "a@x.org")
        whole = told(EvidenceKind.PURGED, id)
        store.record(whole)
        assert store.evidence(request=id) == [whole]
        with database.begin() as connection:
            connection.execute(text("UPDATE erasure_evidence SET packed = :none"), {"none": b"cannot be unpacked"})
        assert store.evidence(request=id, documents=False) == [replace(whole, document={})]


class TestEither:
    """A request's rows are erased, or it is withdrawn."""

    @pytest.mark.parametrize("state", [CLOSED, WITHDRAWN])
    def test_nothing_is_about_to_be_removed_for_a_request_that_ended(
        self, store: SqlTombstones, state: ErasureState
    ) -> None:
        still_open, ended = asked(store, "a@x.org"), asked(store, "b@x.org")
        store.move(ended, state, NOW)
        with pytest.raises(StalePlan, match=f"request {ended} is {state}"):
            store.record(intent(still_open, ended))
        assert intents(store) == []
        store.record(told(EvidenceKind.PROVED, still_open, ended))
        assert len(store.evidence()) == 1

    @pytest.mark.parametrize("kind", [EvidenceKind.INTENT, EvidenceKind.PURGED])
    def test_none_is_withdrawn_whose_rows_may_be_erased(self, store: SqlTombstones, kind: EvidenceKind) -> None:
        id = asked(store, "a@x.org")
        store.record(told(kind, id))
        with pytest.raises(Conflict, match=f"a purge is erasing rows of request {id} in main.crm.people"):
            store.move(id, WITHDRAWN, NOW)
        assert store.get(id).state is OPEN and store.hidden("uuid-1")[0].values == ["a@x.org"]
        assert store.move(id, CLOSED, NOW).state is CLOSED

    def test_but_for_what_was_looked_into(self, store: SqlTombstones) -> None:
        id, other = asked(store, "a@x.org"), asked(store, "b@x.org")
        store.record(intent(id))
        store.record(intent(other, operation="op-2"))
        seen = store.evidence(request=id)
        assert store.move(id, WITHDRAWN, NOW, seen).state is WITHDRAWN
        assert [each.operation for each in intents(store)] == ["op-2"]

    @pytest.mark.parametrize("operation", ["op-1", "op-2"])
    def test_what_was_told_since_nobody_has_looked_into(self, store: SqlTombstones, operation: str) -> None:
        """Also where the same action tells the same again: it is about to try once more."""
        id = asked(store, "a@x.org")
        store.record(intent(id))
        seen = store.evidence(request=id)
        store.record(replace(intent(id, operation=operation), at=NOW + timedelta(microseconds=1)))
        with pytest.raises(Conflict, match=f"a purge is erasing rows of request {id}"):
            store.move(id, WITHDRAWN, NOW, seen)

    def test_a_purge_that_comes_first_is_waited_for(self, store: SqlTombstones) -> None:
        id = asked(store, "a@x.org")
        with at_once(
            "erasure_requests.state", lambda: store.record(intent(id)), lambda: store.move(id, WITHDRAWN, NOW)
        ) as (purge, withdraw):
            assert purge.exception(20) is None
            assert isinstance(withdraw.exception(20), Conflict)
        assert store.get(id).state is OPEN and len(intents(store)) == 1

    def test_a_withdrawal_that_comes_first_is_waited_for(self, store: SqlTombstones) -> None:
        id = asked(store, "a@x.org")
        with at_once(
            "UPDATE erasure_requests", lambda: store.move(id, WITHDRAWN, NOW), lambda: store.record(intent(id))
        ) as (withdraw, purge):
            assert withdraw.exception(20) is None
            assert isinstance(purge.exception(20), StalePlan)
        assert store.get(id).state is WITHDRAWN and intents(store) == []


@contextmanager
def at_once(
    where: str, first: Callable[[], Any], second: Callable[[], Any]
) -> Iterator[tuple[Future[Any], Future[Any]]]:
    """Two at once: the second begins when the first has sent a statement, and has half a second to come to its end
    before the first goes on."""
    sent, ended = threading.Event(), threading.Event()

    def pause(_: Any, __: Any, statement: str, *___: Any) -> None:
        if threading.current_thread().name.endswith("_0") and where in statement and not sent.is_set():
            sent.set()
            ended.wait(0.5)

    def later() -> None:
        assert sent.wait(10)
        try:
            second()
        finally:
            ended.set()

    event.listen(Engine, "after_cursor_execute", pause)
    try:
        with ThreadPoolExecutor(2, thread_name_prefix="at-once") as threads:
            yield threads.submit(first), threads.submit(later)
    finally:
        event.remove(Engine, "after_cursor_execute", pause)


class TestForgetting:
    """What a purge was about to remove goes with the values, but not what others still need of it."""

    def test_it_stays_for_the_other_requests_of_the_purge(self, store: SqlTombstones) -> None:
        one, two = asked(store, "a@x.org"), asked(store, "b@x.org")
        store.record(intent(one, two))
        store.move(one, CLOSED, NOW)
        assert [each.requests for each in intents(store)] == [(two,)]
        store.move(two, CLOSED, NOW)
        assert intents(store) == []

    def test_not_where_they_need_it_no_more(self, store: SqlTombstones) -> None:
        """A request over several tables may stay open for long; paths may tell of the other's values."""
        one, two = asked(store, "a@x.org"), asked(store, "b@x.org")
        store.record(intent(one, two))
        store.record(intent(one, two, operation="op-2", uuid="uuid-2"))
        store.record(told(EvidenceKind.PURGED, one, two, operation="op-3"))
        store.move(one, CLOSED, NOW)
        assert [each.uuid for each in intents(store)] == ["uuid-2"]

    def test_nor_by_what_was_purged_before(self, store: SqlTombstones) -> None:
        one, two = asked(store, "a@x.org"), asked(store, "b@x.org")
        store.record(told(EvidenceKind.PURGED, one, two, operation="op-0"))
        store.record(intent(one, two))
        store.move(one, CLOSED, NOW)
        assert [each.requests for each in intents(store)] == [(two,)]


def test_operations_at_work_are_those_that_hold_the_table(store: SqlTombstones, database: Database) -> None:
    id, other = asked(store, "a@x.org"), asked(store, "b@x.org")
    store.record(intent(id))
    leases, minute = SqlLeases(database), timedelta(minutes=1)
    assert store.at_work(id) == []
    leases.acquire("table:uuid-2", "another table", "op-1", "somebody", minute)
    assert store.at_work(id) == []
    held = leases.acquire("table:uuid-1", "the table", "op-1", "somebody", minute)
    assert (store.at_work(id), store.at_work(other)) == (["op-1"], [])
    leases.release(held)
    assert store.at_work(id) == []
    leases.acquire("table:uuid-1", "the table", "op-2", "somebody", minute)
    assert store.at_work(id) == []
    store.record(told(EvidenceKind.PROVED, id, operation="op-2"))
    assert store.at_work(id) == []
