"""The record of operations: its values, what a journal must be able to do, and one kept in memory.

The lasting journal is in `state/`; both pass the same tests. The journal says what was planned and
how far it came. Whether an action is done is never read from here but looked up in the lake. The plan of an
operation that is read back has its files counted; `files` answers with those of one action.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from lakewarden.errors import OperationNotFound
from lakewarden.lifecycle.action import Finding
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.states import State, Stop, check_move


class Progress(StrEnum):
    """How far one action came."""

    PENDING = "pending"
    DONE = "done"
    VERIFIED = "verified"
    STALE = "stale"
    FAILED = "failed"


@dataclass(frozen=True)
class Step:
    """One action of an operation, as the journal knows it."""

    action: str
    subject: str
    says: str
    progress: Progress = Progress.PENDING
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Record:
    """One operation: what was asked, what was planned, and what became of it."""

    id: str
    kind: str
    target: str
    state: State
    actor: str
    created_at: datetime
    request: str
    plan: Plan
    steps: tuple[Step, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    findings: tuple[Finding, ...] = ()
    error: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    stop_requested: Stop | None = None
    """What it was asked to do while it runs; where it is paused, that this was meant: only its id resumes it."""
    applied_by: str = ""

    @staticmethod
    def planned(id: str, plan: Plan, request: str, actor: str, at: datetime) -> Record:
        """A new operation that nothing has been done for yet."""
        steps = tuple(Step(action.id, action.subject, action.says) for action in plan.actions)
        return Record(id, plan.kind, plan.target, State.PLANNED, actor, at, request, plan, steps)


class JournalReader(Protocol):
    def get(self, id: str) -> Record:
        """The operation of this id, or the newest one of this plan id."""
        ...

    def list(
        self, *, states: Sequence[State] = (), kind: str = "", subjects: Collection[str] = (), limit: int = 50
    ) -> list[Record]:
        """Operations, newest first: in one of these states, of this kind, on one of these subjects."""
        ...

    def planned(self, plan_id: str) -> Record | None:
        """The operation that is planned with exactly this plan and was not applied yet."""
        ...

    def stop_requested(self, id: str) -> Stop | None:
        """Whether this operation was asked to pause or to end."""
        ...

    def files(self, id: str, action: str) -> FileList:
        """Every file of one action of an operation; none where it has none."""
        ...

    def last_done(self, kinds: Sequence[str]) -> dict[str, datetime]:
        """For each subject, when an operation of these kinds was last applied to it and verified."""
        ...


class Journal(JournalReader, Protocol):
    """What the runner writes to; here an operation goes by its own id only."""

    def add(self, record: Record) -> None:
        """Write a new operation down, with its files; raises AlreadyExists for an id that is taken."""
        ...

    def move(self, id: str, state: State, at: datetime, **facts: Any) -> Record:
        """Change an operation's state, validated and atomically; `facts` are other fields of it."""
        ...

    def step(self, id: str, step: Step) -> None:
        """Write down how far one action came."""
        ...

    def verified(self, id: str, actions: Collection[str], at: datetime) -> None:
        """Write down that what some actions did has been looked at and is so; what is not done stays as it is."""
        ...

    def request_stop(self, id: str, stop: Stop) -> None:
        """Ask the process that runs this operation to pause or to end it. What was to end is not paused instead."""
        ...


def is_over(journal: JournalReader) -> Callable[[str], bool]:
    """Tells whether an operation is in the journal and not running."""
    return lambda operation: _state(journal, operation) not in (None, State.RUNNING, State.VERIFYING)


def known_to(journal: JournalReader) -> Callable[[str], bool]:
    """Tells whether an operation is in the journal, and so one of ours."""
    return lambda operation: _state(journal, operation) is not None


def _state(journal: JournalReader, operation: str) -> State | None:
    try:
        return journal.get(operation).state
    except OperationNotFound:
        return None


def advanced(record: Record, state: State, at: datetime, facts: Mapping[str, Any]) -> Record:
    """The record after a validated move: when it started, when it ended, and what is no longer true of it."""
    check_move(record.id, record.state, state)
    ended = state in (State.DONE, State.FAILED, State.CANCELLED)
    fresh = {"error": None, "findings": ()} if state is State.RUNNING else {}
    return replace(
        record,
        state=state,
        started_at=record.started_at or (at if state is State.RUNNING else None),
        finished_at=at if ended else None,
        **{**fresh, **facts},
    )


def not_found(id: str) -> OperationNotFound:
    return OperationNotFound(f"no operation or plan {id} in the journal", hint="lakewarden operation list shows them.")
