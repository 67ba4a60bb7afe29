"""What a control works with: the lake to look at, the stores to change, the runner to steer, and the journal.

A control has no plan. One that changes something itself leaves a record in the journal instead, in the same transaction
as the change; one that steers operations leaves none, since those have records of their own.
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
    def run(self, id: str, wait: timedelta = ..., by_its_id: bool = ...) -> Report: ...
    def pause(self, id: str) -> Record: ...
    def cancel(self, id: str) -> Record: ...
    def resumable(self, id: str) -> Record: ...
    def unfinished(self) -> tuple[list[Record], list[Record]]: ...
    def paused(self) -> list[Record]: ...
    def await_dead_holders(self, wait: timedelta | None = ..., only: str | None = ...) -> None: ...


@dataclass(frozen=True)
class ControlDesk:
    """What one control is handed when it acts, and who acts."""

    kind: str
    lake: Reader
    state: StateWriter
    runner: Steering
    journal: Journal
    actor: str
    new_id: Callable[[], str]
    storage: Callable[[str], Storage]
    """A lake's files, to change: without a lease, so only for what no operation changes."""
    recorded: list[str] = field(default_factory=list)
    """The records that were left so far."""

    def record(
        self, target: str, says: str, request: str, result: Mapping[str, Any], tables: Sequence[str] = ()
    ) -> str:
        """Record in the journal what a control did, as an operation that is done; returns the record's id.

        It has one step for each table, or one for its target. Records stay for good, so no key value may be in one.
        """
        now = self.lake.clock()
        steps = (Step(f"{n}", each, says, Progress.VERIFIED, at=now) for n, each in enumerate(tables or [target]))
        planned = Record.planned(self.new_id(), Plan(self.kind, target), request, self.actor, now)
        ended = replace(planned, state=State.DONE, steps=tuple(steps), started_at=now, finished_at=now)
        record = replace(ended, applied_by=self.actor, result=result)
        self.journal.add(record)
        self.recorded.append(record.id)
        return record.id
