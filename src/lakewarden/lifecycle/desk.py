"""What a control works with: the lake to read, the stores to change, the runner, and the journal.

A control has no plan. One that changes something itself leaves a record in the journal, in the same transaction; one
that steers operations leaves none, because operations have their own records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from lakewarden.lifecycle.journal import Journal, Progress, Record, Step
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.states import State

if TYPE_CHECKING:
    from lakewarden.engine.storage.storage import Storage
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.report import Report
    from lakewarden.state.stores import StateWriter


class Steering(Protocol):
    """What controls may ask of the runner."""

    @property
    def lease_timeout(self) -> timedelta: ...
    def apply(self, id: str, wait: timedelta = ...) -> Report: ...
    def run(
        self, id: str, wait: timedelta = ..., by_its_id: bool = ..., limits: Mapping[str, Any] | None = ...
    ) -> Report: ...
    def pause(self, id: str) -> Record: ...
    def cancel(self, id: str) -> Record: ...
    def resumable(self, id: str) -> Record: ...
    def unfinished(self) -> tuple[list[Record], list[Record]]: ...
    def paused(self) -> list[Record]: ...
    def await_dead_holders(self, wait: timedelta | None = ..., only: str | None = ...) -> None: ...


@dataclass(frozen=True)
class ControlDesk:
    """The context in which a control acts."""

    kind: str
    lake: Reader
    state: StateWriter
    runner: Steering
    journal: Journal
    actor: str
    new_id: Callable[[], str]
    storage: Callable[[str], Storage]
    """A lake's files, writable without a lease: only for what no operation changes."""
    recorded: list[str] = field(default_factory=list)
    """The ids of the records left so far."""

    def record(
        self, target: str, says: str, request: str, result: Mapping[str, Any], tables: Sequence[str] = ()
    ) -> str:
        """Record in the journal what a control did, as a completed operation; returns its id.

        It has one step per table, or one for its target. Records are permanent, so they must not contain key values.
        """
        now = self.lake.clock()
        subjects = enumerate(tables or [target])
        steps = (Step(f"{n}", each, says, Progress.VERIFIED, at=now, position=n) for n, each in subjects)
        planned = Record.planned(self.new_id(), Plan(self.kind, target), request, self.actor, now)
        ended = replace(planned, state=State.DONE, steps=tuple(steps), started_at=now, finished_at=now)
        record = replace(ended, applied_by=self.actor, result=result)
        self.journal.add(record)
        self.recorded.append(record.id)
        return record.id
