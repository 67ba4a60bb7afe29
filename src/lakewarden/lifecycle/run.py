"""One run of one operation: its progress, and the error that summarises it.

Several threads may work on one run, each on a different subject; shared state is guarded here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import RLock
from typing import Any

from lakewarden.errors import Conflict, LakewardenError, SomeFailed, some_failed
from lakewarden.lifecycle import interrupts
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.basics import Fence
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.journal import Progress, Record, Step
from lakewarden.lifecycle.leases import Keeper
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.progress import Event, Phase, Watcher
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.states import Stop

_LOOK_EVERY = timedelta(seconds=1)
_AT_ITS_LIMIT = (Stop.BUDGET, Stop.PAUSE)
_SHOWN = 5  # failures in the message; the details have all


class Halted(KeyboardInterrupt):
    """Stops a subject because the operation was asked to pause or cancel; raised by the same calls as interrupts."""


@dataclass
class Run:
    """The state of a running operation."""

    record: Record
    operation: Operation
    lake: Reader
    """What the operation reads from, with the values that it keeps while it runs."""
    keeper: Keeper
    fence: Fence
    wait: timedelta
    began: datetime
    watch: Watcher
    is_resumed: bool = False
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, LakewardenError] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    stop: Stop | None = None
    """The operation's own limit that was reached: the rest is left, and what was applied is verified."""
    halted: Stop | None = None
    """The request that stops everything as it is."""
    begun: int = 0

    def __post_init__(self) -> None:
        self._lock = RLock()
        self._looked: datetime | None = None
        self._steps = {step.action: step for step in self.record.steps}
        verified = [step for step in self.record.steps if step.progress is Progress.VERIFIED]
        self.outcomes |= {step.action: Outcome(step.facts) for step in verified}  # results of earlier runs count
        unfinished = {step.subject for step in self.record.steps if step.progress is not Progress.VERIFIED}
        self.subjects = [subject for subject in self.plan.subjects if subject in unfinished]
        """What no earlier run of this operation brought to its end."""
        self._to_apply = set(self.subjects)

    @property
    def plan(self) -> Plan:
        return self.record.plan

    @property
    def leaves_held(self) -> bool:
        """Whether held subjects are skipped: not after waiting for one, nor if an earlier run has started."""
        return self.operation.skips_held() and not self.wait and not self.is_resumed

    def step(self, action: Action) -> Step:
        return self._steps[action.id]

    def has_reached_limit(self, now: datetime) -> bool:
        """Whether the operation has reached its limit: never before its first action, and permanently once it has."""
        with self._lock:
            if self.stop is None and self.begun:
                self.stop = self.operation.limit_reached(now - self.began, self.begun)
            return self.stop in _AT_ITS_LIMIT

    def begin(self) -> None:
        """Count an action that this run starts to apply."""
        with self._lock:
            self.begun += 1

    def halt(self, why: Stop) -> None:
        """Stop every thread before its next action. The first reason counts."""
        with self._lock:
            self.halted = self.halted or why

    def check_stop(self, asked: Callable[[str], Stop | None]) -> None:
        """Raise if the run is halted, or the operation was asked to pause or cancel."""
        self.check_halt()
        wish = asked(self.record.id)
        if wish is not None:
            self.halt(wish)
            self.check_halt()

    def check_stop_now_and_then(self, asked: Callable[[str], Stop | None], now: datetime) -> None:
        """The same during an action, called as often as it likes: the journal is read at most once a second."""
        self.check_halt()
        with self._lock:
            if self._looked is not None and now - self._looked < _LOOK_EVERY:
                return
            self._looked = now
        with suppress(LakewardenError):  # an unavailable journal does not stop an action
            self.check_stop(asked)

    def check_halt(self) -> None:
        """Raise if the run is halted, or if an interrupt was received but lost or turned into another error."""
        interrupts.raise_pending()
        if self.halted is Stop.INTERRUPT:
            raise KeyboardInterrupt
        if self.halted is not None:
            raise Halted

    def all_applied(self, subject: str) -> bool:
        """Whether this was the last subject to apply, and none failed: only verification is left."""
        with self._lock:
            self._to_apply.discard(subject)
            return not self._to_apply and not self.failures

    def fail(self, subject: str, error: LakewardenError) -> None:
        with self._lock:
            self.failures[subject] = error
            self._to_apply.discard(subject)

    def skip(self, subject: str) -> None:
        """Skip a subject that another operation holds."""
        with self._lock:
            self.skipped.add(subject)
            self._to_apply.discard(subject)

    def emit(self, phase: Phase, subject: str = "", says: str = "", part: float = 0.0) -> None:
        """Send an event to the watcher, one at a time."""
        with self._lock:
            done, total = len(self.outcomes), len(self.plan.actions)
            self.watch(Event(self.record.id, self.record.kind, phase, done, total, subject, says, part))

    def result(self) -> dict[str, Any]:
        """The measured result: numbers added up over all actions, the last of any other value, and what is left."""
        done = [action for action in self.plan.actions if action.id in self.outcomes]
        touched = {action.subject for action in done}
        total: dict[str, Any] = {"actions": len(self.outcomes), "subjects": len(touched - set(self.failures))}
        for action in done:
            for name, value in self.outcomes[action.id].facts.items():
                adds = _is_number(value) and _is_number(total.get(name, 0))
                total[name] = total.get(name, 0) + value if adds else value
        left, total = self.left(), self.operation.concluded(total, self.lake)
        skipped = {"skipped": len(self.skipped)} if self.skipped else {}
        total |= self.plan.details
        return {**total, **skipped, **({"left": left, "stopped": str(self.stop)} if left else {})}

    def failure(self) -> LakewardenError | None:
        """The error that summarises the operation; None if everything succeeded."""
        if not self.failures:
            return refusal(self.plan, self.record.id, self.left())
        in_order = {subject: self.failures[subject] for subject in self.plan.subjects if subject in self.failures}
        first = next(iter(in_order.values()))
        if len(self.plan.subjects) == 1 and not self.plan.refused:
            first.details["operation"] = self.record.id
            return first
        conflicts = all(isinstance(error, Conflict) for error in in_order.values())
        look = f"See: lakewarden operation show {self.record.id}"
        documents = [{"subject": subject, **error.document()} for subject, error in in_order.items()]
        hint = "Plan again for those that failed." if conflicts else look
        return _some_failed(self.plan, documents, hint, self.record.id, self.left())

    def left(self) -> int:
        """The number of actions left because the operation reached its limit."""
        undone = [action for action in self.plan.actions if action.id not in self.outcomes]
        elsewhere = self.skipped | set(self.failures)
        return len([a for a in undone if a.subject not in elsewhere]) if self.stop in _AT_ITS_LIMIT else 0


def refusal(plan: Plan, operation: str | None = None, left: int = 0) -> LakewardenError | None:
    """The error for subjects that were refused during planning."""
    hint = "Fix the problems, or exclude those subjects, and plan again."
    return _some_failed(plan, [], hint, operation, left) if plan.refused else None


def defect(run: Run, subject: str, error: Exception) -> LakewardenError:
    """An unexpected exception as an error without its message, which may contain anything."""
    failure = LakewardenError(
        f"unexpected error on {subject} ({type(error).__name__})",
        hint=f"See the log, under {run.record.id}.",
    )
    failure.__cause__ = error
    return failure


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _some_failed(plan: Plan, failures: list[dict[str, Any]], hint: str, operation: str | None, left: int) -> SomeFailed:
    refused = [{"subject": r.subject, "code": "refused", "message": r.message, "hint": ""} for r in plan.refused]
    all_failures = failures + refused
    shown = "; ".join(f"{failure['subject']}: {failure['message']}" for failure in all_failures[:_SHOWN])
    more = f"; and {len(all_failures) - _SHOWN} more" if len(all_failures) > _SHOWN else ""
    of = len(plan.subjects) + len(refused)
    others = f"{left} {'action' if left == 1 else 'actions'} on others not done" if left else "the others are done"
    return some_failed([failure["code"] for failure in all_failures])(
        f"{len(all_failures)} of {of} failed, {others}: {shown}{more}",
        hint=hint,
        failures=all_failures,
        operation=operation,
    )
