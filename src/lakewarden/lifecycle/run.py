"""One run of one operation: what it has come to so far, its report, and the one error that says what became of it.

Several threads may work on one run, each on a table of its own; what they share is guarded here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from threading import RLock
from typing import Any

from lakewarden.display import Shown
from lakewarden.errors import Conflict, LakewardenError, SomeTablesFailed, TracesLeft, TracesLeftInSome
from lakewarden.lifecycle import interrupts
from lakewarden.lifecycle.ground import Fence
from lakewarden.lifecycle.journal import Progress, Record, Step
from lakewarden.lifecycle.leases import Keeper
from lakewarden.lifecycle.plan import Action, Finding, Outcome, Plan
from lakewarden.lifecycle.progress import Event, Phase, Watcher
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.states import State

_TOLD = 5  # failures that are told in words; all of them are in the details


class Stop(StrEnum):
    """Why a run ends before all of its actions are done."""

    BUDGET = "budget"
    CANCEL = "cancel"
    INTERRUPT = "interrupt"


class Cancelled(Exception):
    """Leaves a table where it is, since somebody asked the operation to stop."""


@dataclass(frozen=True)
class Report(Shown):
    """How an applied operation ended; one that had nothing to do was not written down and has no id."""

    id: str | None
    kind: str
    state: State
    result: dict[str, Any]
    left: tuple[str, ...] = ()
    """What was not begun when the operation had enough, as `table: says`."""
    skipped: tuple[str, ...] = ()
    """Which tables were left to other operations that hold them, each with its holder."""

    @staticmethod
    def of(record: Record) -> Report:
        pending = [step for step in record.steps if step.progress is Progress.PENDING]
        held = {step.table: str(step.error["message"]) for step in pending if step.error}
        left = tuple(f"{step.table}: {step.says}" for step in pending if step.table not in held)
        return Report(record.id, record.kind, record.state, dict(record.result or {}), left, tuple(held.values()))

    def document(self) -> dict[str, Any]:
        """The report as every door shows it. Findings are never in it: they make an operation fail, with an error."""
        return {
            "operation": {"id": self.id, "kind": self.kind, "state": str(self.state)},
            "result": self.result,
            "findings": [],
            **({"left": list(self.left)} if self.left else {}),
            **({"skipped": list(self.skipped)} if self.skipped else {}),
        }


@dataclass
class Run:
    """What a running operation has come to."""

    record: Record
    operation: Operation
    keeper: Keeper
    fence: Fence
    wait: timedelta
    began: datetime
    watch: Watcher
    is_taken_up: bool = False
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, LakewardenError] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    stop: Stop | None = None
    has_begun: bool = False

    def __post_init__(self) -> None:
        self._lock = RLock()
        self._steps = {step.action: step for step in self.record.steps}
        verified = [step for step in self.record.steps if step.progress is Progress.VERIFIED]
        self.outcomes |= {step.action: Outcome(step.facts) for step in verified}  # what earlier runs did counts as done
        unfinished = {step.table for step in self.record.steps if step.progress is not Progress.VERIFIED}
        self.tables = [table for table in self.plan.tables if table in unfinished]
        """The tables that no earlier run of this operation brought to their end."""
        self._to_apply = set(self.tables)

    @property
    def plan(self) -> Plan:
        return self.record.plan

    @property
    def leaves_held(self) -> bool:
        """Whether a held table is left to its holder: not if it was waited for, nor if an earlier run began with it."""
        return self.operation.skips_held() and not self.wait and not self.is_taken_up

    def step(self, action: Action) -> Step:
        return self._steps[action.id]

    def is_enough(self, now: datetime) -> bool:
        """Whether the operation has had enough: never before its first action, and once it has, for good."""
        with self._lock:
            if self.stop is None and self.has_begun and self.operation.enough(now - self.began):
                self.stop = Stop.BUDGET
            return self.stop is Stop.BUDGET

    def halt(self, why: Stop) -> None:
        """Let every thread stop at its next step between two actions."""
        with self._lock:
            self.stop = why

    def mind(self, cancel_requested: Callable[[str], bool]) -> None:
        """Leave where the run is halted, or somebody asked the operation to stop."""
        self.mind_interrupt()
        if self.stop is Stop.CANCEL or cancel_requested(self.record.id):
            self.halt(Stop.CANCEL)
            raise Cancelled

    def mind_interrupt(self) -> None:
        """Raise an interrupt that was raised in the main thread only, or that was turned into another error."""
        interrupts.mind()
        if self.stop is Stop.INTERRUPT:
            raise KeyboardInterrupt

    def all_applied(self, table: str) -> bool:
        """Whether this was the last table to apply anything to, and none failed: what is left is to look at it all."""
        with self._lock:
            self._to_apply.discard(table)
            return not self._to_apply and not self.failures

    def fail(self, table: str, error: LakewardenError) -> None:
        with self._lock:
            self.failures[table] = error
            self._to_apply.discard(table)

    def skip(self, table: str) -> None:
        """Leave a table to the operation that holds it."""
        with self._lock:
            self.skipped.add(table)
            self._to_apply.discard(table)

    def tell(self, phase: Phase, table: str = "", says: str = "", part: float = 0.0) -> None:
        """Let whoever watches know, one event at a time."""
        with self._lock:
            done, total = len(self.outcomes), len(self.plan.actions)
            self.watch(Event(self.record.id, self.record.kind, phase, done, total, table, says, part))

    def result(self) -> dict[str, Any]:
        """What was measured: numbers added up over all actions, of anything else the last; and what is left to do."""
        done = [action for action in self.plan.actions if action.id in self.outcomes]
        touched = {action.table for action in done}
        total: dict[str, Any] = {"actions": len(self.outcomes), "tables": len(touched - set(self.failures))}
        for action in done:
            for name, value in self.outcomes[action.id].facts.items():
                adds = _is_number(value) and _is_number(total.get(name, 0))
                total[name] = total.get(name, 0) + value if adds else value
        left, total = self._left(), self.operation.concluded(total)
        skipped = {"skipped": len(self.skipped)} if self.skipped else {}
        return {**total, **skipped, **({"left": left, "stopped": str(self.stop)} if left else {})}

    def failure(self) -> LakewardenError | None:
        """The one error that says what became of the whole operation; none where all of it came through."""
        if not self.failures:
            return refusal(self.plan, self.record.id, self._left())
        in_order = {table: self.failures[table] for table in self.plan.tables if table in self.failures}
        first = next(iter(in_order.values()))
        if len(self.plan.tables) == 1 and not self.plan.refused:
            first.details["operation"] = self.record.id
            return first
        conflicts = all(isinstance(error, Conflict) for error in in_order.values())
        look = f"Look at it: lakewarden operation show {self.record.id}"
        documents = [{"table": table, **error.document()} for table, error in in_order.items()]
        hint = "Plan again for those that failed." if conflicts else look
        return _some_failed(self.plan, documents, hint, self.record.id, self._left())

    def _left(self) -> int:
        """How many actions the operation had enough before."""
        undone = [action for action in self.plan.actions if action.id not in self.outcomes]
        elsewhere = self.skipped | set(self.failures)
        return len([a for a in undone if a.table not in elsewhere]) if self.stop is Stop.BUDGET else 0


def refusal(plan: Plan, operation: str | None = None, left: int = 0) -> LakewardenError | None:
    """What to say of tables that were asked for and refused when the plan was made."""
    hint = "Mend what is said of each, or leave those tables out, and plan again."
    return _some_failed(plan, [], hint, operation, left) if plan.refused else None


def defect(run: Run, table: str, error: Exception) -> LakewardenError:
    """A defect of ours, told without its inside: whatever it holds belongs into no message and no journal."""
    told = LakewardenError(
        f"something went wrong on {table} that Lakewarden did not expect ({type(error).__name__})",
        hint=f"The log has it, under {run.record.id}.",
    )
    told.__cause__ = error
    return told


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _some_failed(
    plan: Plan, failures: list[dict[str, Any]], hint: str, operation: str | None, left: int
) -> SomeTablesFailed:
    refused = [{"table": r.table, "code": "refused", "message": r.message, "hint": ""} for r in plan.refused]
    all_failures = failures + refused
    told = "; ".join(f"{failure['table']}: {failure['message']}" for failure in all_failures[:_TOLD])
    more = f"; and {len(all_failures) - _TOLD} more" if len(all_failures) > _TOLD else ""
    tables = len(plan.tables) + len(refused)
    others = f"{left} {'action' if left == 1 else 'actions'} on others left undone" if left else "the others are done"
    only_traces = all(failure["code"] == TracesLeft.code for failure in all_failures)
    return (TracesLeftInSome if only_traces else SomeTablesFailed)(
        f"{len(all_failures)} of {tables} tables failed, {others}: {told}{more}",
        hint=hint,
        failures=all_failures,
        operation=operation,
    )
