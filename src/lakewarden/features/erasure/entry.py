"""Requests for erasure as answers show them. No answer holds a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.display import Shown
from lakewarden.lifecycle.tombstones import ErasureRequest


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
class RequestDetail(Shown):
    """All that is known of a request, but its values."""

    id: str
    state: str
    values: int
    subject: str
    requester: str
    reason: str
    created_at: datetime
    grace_until: datetime
    deadline: datetime | None
    closed_at: datetime | None
    keys: list[KeyRow]


def state_of(request: ErasureRequest, now: datetime) -> str:
    """`waiting` while a request is in its grace."""
    return "waiting" if request.waits(now) else str(request.state)


def row(request: ErasureRequest, now: datetime) -> RequestRow:
    return RequestRow(
        id=request.id,
        state=state_of(request, now),
        tables=list(dict.fromkeys(key.table for key in request.keys)),
        values=request.values,
        subject=request.subject,
        requester=request.requester,
        created_at=request.created_at,
        deadline=request.deadline,
        overdue=request.is_overdue(now),
        reason=request.reason,
    )


def detail(request: ErasureRequest, now: datetime) -> RequestDetail:
    return RequestDetail(
        id=request.id,
        state=state_of(request, now),
        values=request.values,
        subject=request.subject,
        requester=request.requester,
        reason=request.reason,
        created_at=request.created_at,
        grace_until=request.grace_until,
        deadline=request.deadline,
        closed_at=request.closed_at,
        keys=[KeyRow(key.table, key.path, key.kind) for key in request.keys],
    )
