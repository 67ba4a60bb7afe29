"""The record of operations: its values, and what a journal must do.

The journal in `state/` implements it. It records what was planned and how far it got. Whether an action is done is
never read from it, but checked in the lake. Plans read back have counts of files only; `files` returns the files of one
action.
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
    """How far an action has got."""

    PENDING = "pending"
    DONE = "done"
    VERIFIED = "verified"
    STALE = "stale"
    FAILED = "failed"


WAITS_FOR = "waits_for"
"""The fact of a step that is not done: why it waits at the moment."""


@dataclass(frozen=True)
class Step:
    """One action of an operation in the journal."""

    action: str
    subject: str
    says: str
    progress: Progress = Progress.PENDING
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    at: datetime | None = None
    position: int = 0
    """Its place in the plan. Identifies it, as an action's id changes when a value in it is erased."""


@dataclass(frozen=True)
class Record:
    """One operation: what was requested, what was planned, and the result."""

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
    """What a running operation was asked to do. If it is paused: the pause was requested, so only its id resumes it."""
    applied_by: str = ""

    @staticmethod
    def planned(id: str, plan: Plan, request: str, actor: str, at: datetime) -> Record:
        """A new operation, not started."""
        steps = tuple(Step(a.id, a.subject, a.says, position=at) for at, a in enumerate(plan.actions))
        return Record(id, plan.kind, plan.target, State.PLANNED, actor, at, request, plan, steps)


class JournalReader(Protocol):
    def get(self, id: str) -> Record:
        """The operation with this id, or the newest one with this plan id."""
        ...

    def list(
        self, *, states: Sequence[State] = (), kind: str = "", subjects: Collection[str] = (), limit: int = 50
    ) -> list[Record]:
        """Operations, newest first: in these states, of this kind, on any of these subjects."""
        ...

    def failed_requiring(self, requirement: str) -> Sequence[Record]:
        """Failed operations with a requirement of this kind, without those that a later one took the place of.

        That is one of the same kind and target, on one of the same subjects, that was begun.
        """
        ...

    def last_begun(self, kinds: Sequence[str], argument: str, value: str) -> Record | None:
        """The newest operation of these kinds that was begun and has an action with this argument."""
        ...

    def planned(self, plan_id: str) -> Record | None:
        """The operation that was planned with exactly this plan and not applied yet."""
        ...

    def stop_requested(self, id: str) -> Stop | None:
        """Whether this operation was asked to pause or to cancel."""
        ...

    def held_by(self, id: str) -> str | None:
        """The process that runs an operation at the moment; None if none does."""
        ...

    def files(self, id: str, action: str) -> FileList:
        """All files of one action of an operation; may be empty."""
        ...

    def last_done(self, kinds: Sequence[str]) -> dict[str, datetime]:
        """For each subject, when an operation of these kinds was last applied to it and verified."""
        ...


class Journal(JournalReader, Protocol):
    """What the runner writes to; operations are identified by their own id only."""

    def add(self, record: Record) -> None:
        """Record a new operation with its files; raises AlreadyExists if the id exists."""
        ...

    def move(self, id: str, state: State, at: datetime, **facts: Any) -> Record:
        """Change an operation's state, validated and atomically; `facts` are other fields to set."""
        ...

    def step(self, id: str, step: Step) -> None:
        """Record how far one action has got."""
        ...

    def verified(self, id: str, steps: Collection[Step], at: datetime) -> None:
        """Record that these were verified; steps that are not done stay unchanged."""
        ...

    def request_stop(self, id: str, stop: Stop) -> None:
        """Ask the process that runs this operation to pause or cancel it. A cancel is never replaced by a pause."""
        ...


def is_over(journal: JournalReader) -> Callable[[str], bool]:
    """Returns a test whether an operation is in the journal and no process runs it: it may have been killed."""

    def test(operation: str) -> bool:
        state = _state(journal, operation)
        is_begun = state in (State.RUNNING, State.VERIFYING)
        return state is not None and not (is_begun and journal.held_by(operation) is not None)

    return test


def known_to(journal: JournalReader) -> Callable[[str], bool]:
    """Returns a test whether an operation is in the journal, and so one of ours."""
    return lambda operation: _state(journal, operation) is not None


def _state(journal: JournalReader, operation: str) -> State | None:
    try:
        return journal.get(operation).state
    except OperationNotFound:
        return None


def advanced(record: Record, state: State, at: datetime, facts: Mapping[str, Any]) -> Record:
    """The record after a validated transition, with its times set and outdated results cleared."""
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
