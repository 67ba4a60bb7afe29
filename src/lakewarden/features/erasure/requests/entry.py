"""Erasure requests in the form in which answers show them, without values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.display import Shown
from lakewarden.features.erasure.requests.current_names import tables_of
from lakewarden.features.erasure.requests.request_part import part_for, proof_result, rows_and_values
from lakewarden.records.erasure import ErasureRequest, Evidence, EvidenceKind


@dataclass(frozen=True)
class KeyRow:
    """One key column of one table."""

    table: str
    column: str
    type: str


@dataclass(frozen=True)
class RequestRow:
    """One request in a list."""

    id: str
    state: str
    tables: list[str]
    values: int
    subject: str
    requester: str
    created_at: datetime
    deadline: datetime | None
    overdue: bool
    reason: str


@dataclass(frozen=True)
class TableProgress:
    """The progress of a request in one table.

    `rows_hidden` is of the branch with most rows; `rows_erased` counts a row once per file that held it, in all
    versions. `proof` is the newest: clean, traces or gone.
    """

    table: str
    rows_hidden: int
    rows_erased: int | None
    proof: str
    proved_at: datetime | None


@dataclass(frozen=True)
class RequestEvent:
    """What an operation did or found for a request."""

    at: datetime
    did: str
    table: str
    operation: str


@dataclass(frozen=True)
class RequestDetail(Shown):
    """A request in full, without its values."""

    id: str
    state: str
    values: int
    subject: str
    requester: str
    reason: str
    created_at: datetime
    grace_until: datetime
    deadline: datetime | None
    overdue: bool
    closed_at: datetime | None
    ignoring: str
    keys: list[KeyRow]
    progress: list[TableProgress]
    operations: list[RequestEvent]
    notes: list[str]


def _common(request: ErasureRequest, now: datetime) -> dict[str, Any]:
    """The facts that a row and the detail share; the state is `waiting` during the grace period."""
    names = ("id", "values", "subject", "requester", "reason", "created_at", "deadline")
    state = "waiting" if request.waits(now) else str(request.state)
    return {name: getattr(request, name) for name in names} | {"state": state, "overdue": request.is_overdue(now)}


def row(request: ErasureRequest, now: datetime) -> RequestRow:
    return RequestRow(**_common(request, now), tables=list(dict.fromkeys(key.table for key in request.keys)))


def detail(
    request: ErasureRequest, now: datetime, evidence: Sequence[Evidence], notes: Sequence[str] = ()
) -> RequestDetail:
    return RequestDetail(
        **_common(request, now),
        grace_until=request.grace_until,
        closed_at=request.closed_at,
        ignoring=str(request.folding),
        keys=[KeyRow(key.table, key.path, key.kind) for key in request.keys],
        progress=[
            _progress(request, table, [each for each in evidence if each.uuid == uuid])
            for table, uuid in tables_of(request)
        ],
        operations=[RequestEvent(each.at, str(each.kind), each.table, each.operation) for each in evidence],
        notes=list(notes),
    )


def _progress(request: ErasureRequest, table: str, evidence: Sequence[Evidence]) -> TableProgress:
    hidden: Counter[str] = Counter()
    for each in evidence:
        if each.kind is EvidenceKind.HIDDEN and (each.document.get("snapshot") or each.document.get("done")):
            hidden[str(each.document["branch"])] += int(each.document["rows"].get(request.id, 0))
    purged = [part_for(each, request.id) for each in evidence if each.kind is EvidenceKind.PURGED]
    proofs = [each for each in evidence if each.kind is EvidenceKind.PROVED]
    last = proofs[-1] if proofs else None
    return TableProgress(
        table=table,
        rows_hidden=max(hidden.values(), default=0),
        rows_erased=rows_and_values(purged, request.id)[0],
        proof=proof_result(last) if last else "",
        proved_at=last.at if last else None,
    )
