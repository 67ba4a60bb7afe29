"""Requests for erasure in the control database: many of them, what is known again, and what is forgotten for good."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import digest
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from lakewarden.erased_values import ErasedValues
from lakewarden.errors import Conflict
from lakewarden.records.erasure import ErasureRequest, ErasureState, Evidence, EvidenceKind, KeyAsked
from lakewarden.state.database import Database
from lakewarden.state.digests import SIZE, Digester
from lakewarden.state.tombstones import SqlTombstones
from tests.cases import in_soak

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
EMAIL = KeyAsked("main.crm.people", "uuid-1", "email", 2, "string")
AGE = KeyAsked("main.crm.people", "uuid-1", "user.age", 9, "int")


@pytest.fixture
def store(database: Database) -> SqlTombstones:
    with database.begin() as connection:
        connection.execute(text("DELETE FROM erasure_requests"))
        connection.execute(text("DELETE FROM erasure_evidence"))
    return SqlTombstones(database)


def asked(store: SqlTombstones, *values: str, key: KeyAsked = EMAIL, at: datetime = NOW) -> str:
    id = f"er-{uuid4()}"
    request = ErasureRequest(id, at, "somebody", "", "", None, at, (key,), 0)
    store.add(request, {0: iter(values)})
    return id


def proof(operation: str, *requests: str) -> Evidence:
    return Evidence(EvidenceKind.PROVED, "main.crm.people", "uuid-1", operation, "a", NOW, requests, {"clean": True})


class TestKnownAgain:
    def test_only_values_of_closed_requests_each_by_its_request(self, store: SqlTombstones) -> None:
        first, second = asked(store, "a@x.org", "b@x.org"), asked(store, "b@x.org", "c@x.org")
        still_open, withdrawn = asked(store, "d@x.org"), asked(store, "e@x.org")
        store.close([first, second], NOW, ErasedValues.of([], {}, []))
        store.move(withdrawn, ErasureState.WITHDRAWN, NOW)
        known = store.recognizer("uuid-1")
        assert known.keys == ((2, "string"),)
        found = known.find(2, "string", [f"{letter}@x.org" for letter in "abcdef"])
        assert found == {first: ["a@x.org", "b@x.org"], second: ["b@x.org", "c@x.org"]}
        assert known.find(2, "long", ["a@x.org"]) == known.find(3, "string", ["a@x.org"]) == {}
        assert store.recognizer("uuid-2").keys == ()
        assert store.get(still_open).state is ErasureState.OPEN

    def test_among_very_many(self, store: SqlTombstones) -> None:
        ids = [asked(store, *(f"p{n}@x.org" for n in range(start, start + 25_000))) for start in (0, 25_000)]
        store.close(ids, NOW, ErasedValues.of([], {}, []))
        wanted = [f"p{n}@x.org" for n in range(0, 100_000, 777)]
        found = store.recognizer("uuid-1").find(2, "string", wanted)
        assert found == {
            ids[0]: [value for value in wanted if int(value[1:-6]) < 25_000],
            ids[1]: [value for value in wanted if 25_000 <= int(value[1:-6]) < 50_000],
        }

    @pytest.mark.parametrize("key", [b"short", b"k" * 64, b"k" * 100])
    def test_digests_are_hmac_sha256(self, key: bytes) -> None:
        made = Digester(key).digests("string", ["a@x.org", "é日本😀"])
        assert made[:SIZE] == digest(key, b"string:a@x.org", sha256)
        assert made[SIZE:] == digest(key, "string:é日本😀".encode(), sha256)


class TestManyRequests:
    @pytest.mark.parametrize("database", ["postgres", *in_soak("sqlite")], indirect=True)
    def test_of_more_than_a_query_can_name(self, store: SqlTombstones, database: Database) -> None:
        """Databases take some ten thousand parameters; requests may be more."""
        first = asked(store, "p0@x.org")
        with database.begin() as connection:
            for table, columns in COPIED.items():
                chosen = columns.replace("ID", "'er-' || n")
                series = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 70000) "
                named = columns.replace("ID", "id" if table == "erasure_requests" else "request")
                connection.execute(
                    text(
                        f"INSERT INTO {table} ({named}) {series}"
                        f"SELECT {chosen} FROM s, {table} WHERE {'id' if 'requests' in table else 'request'} = :first"
                    ),
                    {"first": first},
                )
        requests = store.list([ErasureState.OPEN], "uuid-1")
        assert len(requests) == 70_001 and all(request.keys == (EMAIL,) for request in requests)
        assert store.hidden("uuid-1", [request.id for request in requests])[0].values == ["p0@x.org"]
        assert store.hidden("uuid-1", [f"er-{n}" for n in range(80_000, 90_000)]) == []
        store.record(proof("op-1", *(request.id for request in requests)))
        [told] = store.evidence([EvidenceKind.PROVED], uuid="uuid-1")
        assert len(told.requests) == 70_001

    def test_those_that_ended_since_a_moment(self, store: SqlTombstones) -> None:
        ids = [asked(store, f"p{n}@x.org") for n in range(3)]
        for hours, id in enumerate(ids):
            store.move(id, ErasureState.CLOSED, NOW + timedelta(hours=hours))
        late = store.list([ErasureState.CLOSED], "uuid-1", NOW + timedelta(hours=1))
        assert [request.id for request in late] == ids[:0:-1]

    def test_all_are_closed_or_none(self, store: SqlTombstones) -> None:
        ids = [asked(store, f"p{n}@x.org") for n in range(3)]
        store.move(ids[1], ErasureState.CLOSED, NOW)
        with pytest.raises(Conflict, match=ids[1]):
            store.close(ids, NOW, ErasedValues.of([], {}, []))
        assert store.hidden("uuid-1")[0].values == ["p0@x.org", "p2@x.org"]


COPIED = {
    "erasure_requests": (
        'ID, created_at, requester, reason, subject, deadline, grace_until, "values", state, folding, closed_at'
    ),
    "erasure_keys": 'ID, position, "table", uuid, path, field_id, kind',
    "tombstones": "ID, position, chunk, packed, digests",
}


class TestForgetting:
    """Invariant 5: what was erased is in no file of the control database either."""

    def test_plain_values_are_in_no_file_of_sqlite(self, rows: Callable[[str], Database]) -> None:
        database = rows("sqlite")
        store = SqlTombstones(database)
        values = [f"{uuid4()}@example.org" for _ in range(30_000)]
        id = asked(store, *values)
        other = asked(store, "somebody@else.org")
        intent = Evidence(EvidenceKind.INTENT, "t", "uuid-1", "op", "a", NOW, (id,), {"paths": [values[0]] * 50})
        store.record(intent)
        packed = self.packed(database, id) + self.intents(database)
        cut = {pack[start : start + 48] for pack in packed for start in range(0, len(pack) - 48, 3_000)}
        pieces = [piece for piece in cut if self.holds(database, piece)]  # but for those that lie across two pages
        assert len(pieces) > 0.9 * len(cut) and any(piece == packed[-1][:48] for piece in pieces)
        store.move(id, ErasureState.CLOSED, NOW)
        assert not [piece for piece in pieces if self.holds(database, piece)]
        assert not any(self.holds(database, value.encode()) for value in values[::1000])
        assert store.hidden("uuid-1")[0].values == ["somebody@else.org"]
        assert [zlib.decompress(pack) for pack in self.packed(database, other)] == [b'["somebody@else.org"]']

    def test_also_while_others_have_it_open(self, rows: Callable[[str], Database]) -> None:
        database = rows("sqlite")
        store = SqlTombstones(database)
        id = asked(store, *(f"{uuid4()}@example.org" for _ in range(5_000)))
        [packed] = self.packed(database, id)
        beside = Database(f"sqlite:///{database.file}")
        with beside.connect() as connection:
            connection.execute(text("SELECT count(*) FROM tombstones")).scalar()
        store.move(id, ErasureState.CLOSED, NOW)
        assert not any(self.holds(database, packed[start : start + 48]) for start in range(0, 9_000, 1_000))
        beside.close()

    @pytest.mark.postgres
    def test_postgresql_keeps_no_row_of_them_and_no_dead_one(self, rows: Callable[[str], Database]) -> None:
        database = rows("postgres")
        store = SqlTombstones(database)
        id = asked(store, *(f"{uuid4()}@example.org" for _ in range(25_000)))
        store.move(id, ErasureState.CLOSED, NOW)
        with database.connect() as connection:
            left = text("SELECT count(*) FROM tombstones WHERE request = :id AND packed IS NOT NULL")
            assert connection.execute(left, {"id": id}).scalar() == 0
            dead = text(
                "SELECT c.relname, pg_stat_get_dead_tuples(c.oid) + pg_stat_get_dead_tuples(c.reltoastrelid) "
                "FROM pg_class c WHERE c.relname = 'tombstones'"
            )
            assert connection.execute(dead).all() == [("tombstones", 0)]

    def test_where_the_log_cannot_be_cut_that_is_told_and_the_values_are_gone(
        self, rows: Callable[[str], Database], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("lakewarden.state.database.PATIENCE", 0.2)
        database = rows("sqlite")
        store = SqlTombstones(database)
        id = asked(store, "p1@example.org")
        beside = Database(f"sqlite:///{database.file}")
        with beside.connect() as connection, caplog.at_level(logging.WARNING):
            connection.execute(text("SELECT count(*) FROM tombstones")).scalar()  # somebody is in the midst of reading
            store.move(id, ErasureState.CLOSED, NOW)
        assert "still in the log" in caplog.text
        assert store.hidden("uuid-1") == []
        beside.close()

    def holds(self, database: Database, piece: bytes) -> bool:
        assert database.file is not None
        files = [database.file, *(Path(f"{database.file}{end}") for end in ("-wal", "-shm", "-journal"))]
        return any(piece in file.read_bytes() for file in files if file.exists())

    def packed(self, database: Database, id: str) -> list[bytes]:
        with database.connect() as connection:
            found = connection.execute(text("SELECT packed FROM tombstones WHERE request = :id"), {"id": id})
            return [bytes(row.packed) for row in found]

    def intents(self, database: Database) -> list[bytes]:
        with database.connect() as connection:
            found = connection.execute(text("SELECT packed FROM erasure_evidence WHERE kind = 'intent'"))
            return [bytes(row.packed) for row in found]
