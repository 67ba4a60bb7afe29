"""Erasure requests in the control database. The queries are at the end, each with a docstring.

Values are registered in one transaction with their request. When a request is closed its plain values are permanently
deleted: SQLite overwrites them, and its write-ahead log is truncated.
"""

from __future__ import annotations

import hashlib
import json
import secrets as random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Update, insert, inspect, select, update

from lakewarden.erased_values import ErasedValues
from lakewarden.errors import Conflict, StalePlan
from lakewarden.records.erasure import (
    ErasureRequest,
    ErasureState,
    Evidence,
    EvidenceKind,
    Folding,
    HiddenKey,
    KeyAsked,
    not_found,
)
from lakewarden.state.database import Database
from lakewarden.state.digests import SIZE, Blocks, Digester, Recognizer
from lakewarden.state.evidence import (
    FEW,
    forget_intents,
    operations_at_work,
    read_evidence,
    refuse_erased,
    write_evidence,
)
from lakewarden.state.forgetting import forget, searched
from lakewarden.state.tables import (
    erasure_evidence,
    erasure_keys,
    erasure_requests,
    secrets,
    tombstones,
)

_AT_ONCE = 10_000
_DIGEST_KEY = "tombstone-digest"


class SqlTombstones:
    """Erasure requests, shared between processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, request: ErasureRequest, values: Mapping[int, Iterator[str]]) -> int:
        different = {position: sorted(set(texts)) for position, texts in values.items()}
        count = max((len({request.folding.of(text) for text in texts}) for texts in different.values()), default=0)
        with self._database.begin() as connection:
            digester = self._digester(connection)
            connection.execute(insert(erasure_requests), {**_request_row(request), "values": count})
            connection.execute(insert(erasure_keys), [_key_row(request.id, p, k) for p, k in enumerate(request.keys)])
            for position, texts in different.items():
                _insert(connection, digester, request, position, texts)
        return count

    def extend(self, id: str, values: Mapping[int, Sequence[str]]) -> None:
        with self._database.begin() as connection:
            _check_open(connection, [id])
            self._extend(connection, id, values)

    def cover(self, id: str, values: Mapping[KeyAsked, Sequence[str]]) -> None:
        with self._database.begin() as connection:
            _check_open(connection, [id], to_change=True)
            keys = _one(connection, id).keys
            places = {(key.uuid, key.field_id): place for place, key in enumerate(keys)}
            new = [key for key in values if (key.uuid, key.field_id) not in places]
            for place, key in enumerate(new, start=len(keys)):
                places[key.uuid, key.field_id] = place
                connection.execute(insert(erasure_keys), _key_row(id, place, key))
            self._extend(connection, id, {places[key.uuid, key.field_id]: texts for key, texts in values.items()})

    def _extend(self, connection: Connection, id: str, values: Mapping[int, Sequence[str]]) -> None:
        digester, request = self._digester(connection), _one(connection, id)
        for position, texts in values.items():
            rows = connection.execute(_values_of(id, position)).all()
            known = {text for row in rows for text in _unpacked(row.packed)}
            _insert(connection, digester, request, position, sorted(set(texts) - known), len(rows))

    def get(self, id: str) -> ErasureRequest:
        with self._database.connect() as connection:
            return _one(connection, id)

    def many(self, ids: Sequence[str]) -> list[ErasureRequest]:
        with self._database.connect() as connection:
            return _many(connection, ids)

    def hidden(self, uuid: str, requests: Sequence[str] = ()) -> list[HiddenKey]:
        found: dict[tuple[int, str], list[str]] = {}
        wanted = set(requests)
        few = requests if len(requests) <= FEW else ()
        with self._database.connect() as connection:
            for row in connection.execute(_hidden_values(uuid, few)):
                if wanted and row.request not in wanted:
                    continue
                found.setdefault((row.field_id, row.kind), []).extend(_unpacked(row.packed))
        return [HiddenKey(field_id, kind, _different(values)) for (field_id, kind), values in sorted(found.items())]

    def list(
        self, states: Sequence[ErasureState] = (), uuid: str = "", ended_since: datetime | None = None
    ) -> list[ErasureRequest]:
        wanted = _newest(states, uuid, ended_since)
        with self._database.connect() as connection:
            rows = connection.execute(wanted).mappings().all()
            keys = _keys_of(connection, wanted.with_only_columns(erasure_requests.c.id).order_by(None))
            return [_request(row, keys.get(row["id"], ())) for row in rows]

    def move(self, id: str, state: ErasureState, at: datetime, harmless: Sequence[Evidence] = ()) -> ErasureRequest:
        with self._database.begin() as connection:
            self._end(connection, [id], state, at, harmless)
            ended = _one(connection, id)
        self._database.wipe(tombstones.name, erasure_evidence.name)
        return ended

    def close(self, ids: Sequence[str], at: datetime, values: ErasedValues) -> int:
        with self._database.begin() as connection:
            self._end(connection, ids, ErasureState.CLOSED, at)
            count = forget(connection, values)
        self._database.wipe(tombstones.name, *searched())
        return count

    def _end(
        self,
        connection: Connection,
        ids: Sequence[str],
        state: ErasureState,
        at: datetime,
        harmless: Sequence[Evidence] = (),
    ) -> None:
        for id in sorted(ids):  # a common lock order avoids deadlocks
            if connection.execute(_leave_open(id, state, at)).rowcount == 0:
                found = _one(connection, id)
                raise Conflict(f"request {id} is {found.state} already", "Only an open request can be changed.")
            if state is ErasureState.WITHDRAWN:  # after the update, which waits for concurrent transactions
                refuse_erased(connection, id, harmless)
            connection.execute(update(tombstones).where(tombstones.c.request == id).values(packed=None))
        forget_intents(connection, ids)

    def evidence(
        self,
        kinds: Sequence[EvidenceKind] = (),
        *,
        request: str = "",
        uuid: str = "",
        operation: str = "",
        documents: bool = True,
    ) -> Sequence[Evidence]:
        with self._database.connect() as connection:
            return read_evidence(connection, kinds, request, uuid, operation, documents)

    def at_work(self, request: str) -> Sequence[str]:
        with self._database.connect() as connection:
            return operations_at_work(connection, request, self._database.now(connection))

    def identity(self) -> str:
        with self._database.peek() as connection:  # read-only: the schema is neither created nor migrated
            if not inspect(connection).has_table(secrets.name):
                return ""
            known = connection.execute(select(secrets.c.value).where(secrets.c.name == _DIGEST_KEY)).scalar()
        return "" if known is None else hashlib.sha256(b"lakewarden control database:" + bytes(known)).hexdigest()[:32]

    def digested(self, kind: str, texts: Sequence[str]) -> Sequence[bytes]:
        with self._database.connect() as connection:
            return list(_cut(self._digester(connection).digests(kind, texts)))

    def digests(self, request: str) -> Mapping[int, Sequence[bytes]]:
        found: dict[int, list[bytes]] = {}
        with self._database.connect() as connection:
            for row in connection.execute(_digests_of(request)):
                found.setdefault(row.position, []).extend(_cut(bytes(row.digests)))
        return {position: sorted(digests) for position, digests in found.items()}

    def record(self, evidence: Evidence) -> None:
        with self._database.begin() as connection:
            if evidence.kind is EvidenceKind.INTENT:
                _check_open(connection, evidence.requests)
            write_evidence(connection, evidence)

    def recognizer(self, uuid: str) -> Recognizer:
        with self._database.connect() as connection:
            keys = tuple((row.field_id, row.kind) for row in connection.execute(_closed_keys(uuid)))

        def load() -> Mapping[tuple[int, str, Folding], Blocks]:
            found: dict[tuple[int, str, Folding], list[tuple[str, bytes]]] = {}
            with self._database.connect() as connection:
                for row in connection.execute(_closed_digests(uuid)):
                    folding = Folding(row.folding) if row.kind == "string" else Folding.NONE
                    found.setdefault((row.field_id, row.kind, folding), []).append((row.request, bytes(row.digests)))
            return found

        def digester() -> Digester:
            with self._database.connect() as connection:
                return self._digester(connection)

        return Recognizer(keys, load, digester)

    def _digester(self, connection: Connection) -> Digester:
        """Uses a random key, which is stored here and in no certificate."""
        known = connection.execute(select(secrets.c.value).where(secrets.c.name == _DIGEST_KEY)).scalar()
        if known is None:
            known = random.token_bytes(32)
            connection.execute(insert(secrets), {"name": _DIGEST_KEY, "value": known})
        return Digester(bytes(known))


def _insert(
    connection: Connection,
    digester: Digester,
    request: ErasureRequest,
    position: int,
    texts: Sequence[str],
    first: int = 0,
) -> None:
    """Insert the values of a key, thousands per row, numbered from `first`."""
    for number, start in enumerate(range(0, len(texts), _AT_ONCE), start=first):
        some = texts[start : start + _AT_ONCE]
        digests = digester.digests(request.keys[position].kind, some)
        row = {"request": request.id, "position": position, "chunk": number, "packed": _packed(some)}
        connection.execute(insert(tombstones), {**row, "digests": digests})


def _packed(values: Sequence[str]) -> bytes:
    return zlib.compress(json.dumps(values).encode(), level=1)


def _unpacked(packed: bytes) -> list[str]:
    values: list[str] = json.loads(zlib.decompress(packed))
    return values


def _different(values: list[str]) -> list[str]:
    """Each value once, sorted. They come in sorted chunks, which makes sorting fast."""
    values.sort()
    return list(dict.fromkeys(values))


def _cut(digests: bytes) -> Iterator[bytes]:
    """Concatenated digests, one by one."""
    return (digests[start : start + SIZE] for start in range(0, len(digests), SIZE))


def _one(connection: Connection, id: str) -> ErasureRequest:
    return _many(connection, [id])[0]


def _many(connection: Connection, ids: Sequence[str]) -> list[ErasureRequest]:
    found: dict[str, ErasureRequest] = {}
    for start in range(0, len(ids), FEW):
        some = ids[start : start + FEW]
        keys = _keys_of(connection, some)
        rows = connection.execute(select(erasure_requests).where(erasure_requests.c.id.in_(some))).mappings()
        found |= {row["id"]: _request(row, keys.get(row["id"], ())) for row in rows}
    missing = next((id for id in ids if id not in found), None)
    if missing is not None:
        raise not_found(missing)
    return [found[id] for id in ids]


def _check_open(connection: Connection, ids: Sequence[str], to_change: bool = False) -> None:
    """Refuse if a request has ended; until the transaction ends, none of them can, nor can others change one."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), FEW):
        for row in connection.execute(_locked(ordered[start : start + FEW], to_change)):
            if row.state != str(ErasureState.OPEN):
                raise StalePlan(f"the plan is stale: request {row.id} is {row.state}", "Nothing more was erased.")


def _keys_of(connection: Connection, ids: Sequence[str] | Select[Any]) -> dict[str, tuple[KeyAsked, ...]]:
    """The keys of requests, in order."""
    order = (erasure_keys.c.request, erasure_keys.c.position)
    rows = connection.execute(select(erasure_keys).where(erasure_keys.c.request.in_(ids)).order_by(*order)).all()
    return {
        request: tuple(KeyAsked(row.table, row.uuid, row.path, row.field_id, row.kind) for row in group)
        for request, group in groupby(rows, key=lambda row: row.request)
    }


def _request(row: RowMapping, keys: tuple[KeyAsked, ...]) -> ErasureRequest:
    facts = {name: value for name, value in row.items() if name not in ("number", "state", "folding")}
    return ErasureRequest(**facts, keys=keys, state=ErasureState(row["state"]), folding=Folding(row["folding"]))


def _request_row(request: ErasureRequest) -> dict[str, object]:
    return {
        column.name: getattr(request, column.name) for column in erasure_requests.columns if column.name != "number"
    }


def _key_row(request: str, position: int, key: KeyAsked) -> dict[str, object]:
    return {"request": request, "position": position, **vars(key)}


def _newest(states: Sequence[ErasureState], uuid: str, ended_since: datetime | None) -> Select[Any]:
    """Requests in some states, for one table or ended since a time, newest first."""
    query = select(erasure_requests).order_by(erasure_requests.c.number.desc())
    if states:
        query = query.where(erasure_requests.c.state.in_([str(state) for state in states]))
    if uuid:
        about = select(erasure_keys.c.request).where(erasure_keys.c.uuid == uuid)
        query = query.where(erasure_requests.c.id.in_(about))
    if ended_since is not None:
        query = query.where(erasure_requests.c.closed_at >= ended_since)
    return query


def _hidden_values(uuid: str, requests: Sequence[str]) -> Select[Any]:
    """The compressed values of open requests for each column of a table."""
    same = (tombstones.c.request == erasure_keys.c.request) & (tombstones.c.position == erasure_keys.c.position)
    query = (
        select(erasure_keys.c.field_id, erasure_keys.c.kind, tombstones.c.request, tombstones.c.packed)
        .join(erasure_keys, same)
        .join(erasure_requests, erasure_requests.c.id == erasure_keys.c.request)
        .where(erasure_keys.c.uuid == uuid, erasure_requests.c.state == str(ErasureState.OPEN))
        .where(tombstones.c.packed.is_not(None))
    )
    return query.where(erasure_requests.c.id.in_(requests)) if requests else query


def _values_of(request: str, position: int) -> Select[Any]:
    """The compressed values of one key of a request."""
    chosen = (tombstones.c.request == request) & (tombstones.c.position == position)
    return select(tombstones.c.packed).where(chosen, tombstones.c.packed.is_not(None))


def _digests_of(request: str) -> Select[Any]:
    """The digests of a request's values, key by key."""
    columns = (tombstones.c.position, tombstones.c.digests)
    return select(*columns).where(tombstones.c.request == request).order_by(tombstones.c.position, tombstones.c.chunk)


def _closed_keys(uuid: str) -> Select[Any]:
    """The distinct key columns of closed requests for a table."""
    columns = (erasure_keys.c.field_id, erasure_keys.c.kind)
    query = select(*columns).join(erasure_requests, erasure_requests.c.id == erasure_keys.c.request).distinct()
    closed = erasure_requests.c.state == str(ErasureState.CLOSED)
    return query.where(erasure_keys.c.uuid == uuid, closed).order_by(*columns)


def _closed_digests(uuid: str) -> Select[Any]:
    """The digests of closed requests for each column of a table, in order of registration."""
    same = (tombstones.c.request == erasure_keys.c.request) & (tombstones.c.position == erasure_keys.c.position)
    return (
        select(
            erasure_keys.c.field_id,
            erasure_keys.c.kind,
            erasure_requests.c.folding,
            tombstones.c.request,
            tombstones.c.digests,
        )
        .join(erasure_keys, same)
        .join(erasure_requests, erasure_requests.c.id == erasure_keys.c.request)
        .where(erasure_keys.c.uuid == uuid, erasure_requests.c.state == str(ErasureState.CLOSED))
        .order_by(erasure_requests.c.number, tombstones.c.chunk)
    )


def _locked(ids: Sequence[str], to_change: bool) -> Select[Any]:
    """The states of some requests, locked against changes."""
    states = select(erasure_requests.c.id, erasure_requests.c.state).where(erasure_requests.c.id.in_(ids))
    return states.order_by(erasure_requests.c.id).with_for_update(read=not to_change)


def _leave_open(id: str, state: ErasureState, at: datetime) -> Update:
    """Close or withdraw an open request."""
    still_open = (erasure_requests.c.id == id) & (erasure_requests.c.state == str(ErasureState.OPEN))
    return update(erasure_requests).where(still_open).values(state=str(state), closed_at=at)
