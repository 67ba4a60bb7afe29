"""One run of one operation: what it has come to so far, its report, and the one error that says what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lakewarden.errors import Conflict, LakewardenError, SomeTablesFailed
from lakewarden.lifecycle.ground import Fence
from lakewarden.lifecycle.journal import Progress, Record, Step
from lakewarden.lifecycle.leases import Keeper
from lakewarden.lifecycle.plan import Action, Finding, Outcome, Plan
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.states import State

_TOLD = 5  # failures that are told in words; all of them are in the details


@dataclass(frozen=True)
class Report:
    """How an applied operation ended; one that had nothing to do was not written down and has no id."""

    id: str | None
    kind: str
    state: State
    result: dict[str, Any]
    findings: tuple[Finding, ...] = ()

    def document(self) -> dict[str, Any]:
        """The report as every door shows it."""
        return {
            "operation": {"id": self.id, "kind": self.kind, "state": str(self.state)},
            "result": self.result,
            "findings": [{"table": finding.table, "message": finding.message} for finding in self.findings],
        }


@dataclass
class Run:
    """What a running operation has come to."""

    record: Record
    operation: Operation
    keeper: Keeper
    fence: Fence
    wait: timedelta
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, LakewardenError] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return self.record.plan

    def step(self, action: Action) -> Step:
        return next(step for step in self.record.steps if step.action == action.id)

    def remaining(self) -> list[str]:
        """The tables that no earlier run of this operation brought to their end; what those did counts as done."""
        for step in self.record.steps:
            if step.progress is Progress.VERIFIED:
                self.outcomes[step.action] = Outcome(step.facts)
        ended = {s.table for s in self.record.steps} - {
            s.table for s in self.record.steps if s.progress is not Progress.VERIFIED
        }
        return [table for table in self.plan.tables if table not in ended]

    def result(self) -> dict[str, Any]:
        """What was measured, added up over all actions."""
        touched = {action.table for action in self.plan.actions if action.id in self.outcomes}
        total: dict[str, Any] = {"actions": len(self.outcomes), "tables": len(touched - set(self.failures))}
        for outcome in self.outcomes.values():
            for name, value in outcome.facts.items():
                counts = isinstance(value, int | float) and not isinstance(value, bool)
                total[name] = total.get(name, 0) + value if counts else value
        return total

    def failure(self) -> LakewardenError | None:
        """The one error that says what became of the whole operation; none where all of it came through."""
        if not self.failures:
            return refusal(self.plan, self.record.id)
        first = next(iter(self.failures.values()))
        if len(self.plan.tables) == 1 and not self.plan.refused:
            first.details["operation"] = self.record.id
            return first
        conflicts = all(isinstance(error, Conflict) for error in self.failures.values())
        look = f"Look at it: lakewarden operation show {self.record.id}"
        documents = [{"table": table, **error.document()} for table, error in self.failures.items()]
        hint = "Plan again for those that failed." if conflicts else look
        return _some_failed(self.plan, documents, hint, self.record.id)


def refusal(plan: Plan, operation: str | None = None) -> LakewardenError | None:
    """What to say of tables that were asked for and refused when the plan was made."""
    hint = "lakewarden version list shows what they have." if plan.refused else ""
    return _some_failed(plan, [], hint, operation) if plan.refused else None


def defect(run: Run, table: str, error: Exception) -> LakewardenError:
    """A defect of ours, told without its inside: whatever it holds belongs into no message and no journal."""
    told = LakewardenError(
        f"something went wrong on {table} that Lakewarden did not expect ({type(error).__name__})",
        hint=f"The log has it, under {run.record.id}.",
    )
    told.__cause__ = error
    return told


def _some_failed(plan: Plan, failures: list[dict[str, Any]], hint: str, operation: str | None) -> SomeTablesFailed:
    refused = [{"table": r.table, "code": "refused", "message": r.message, "hint": ""} for r in plan.refused]
    all_failures = failures + refused
    told = "; ".join(f"{failure['table']}: {failure['message']}" for failure in all_failures[:_TOLD])
    more = f"; and {len(all_failures) - _TOLD} more" if len(all_failures) > _TOLD else ""
    tables = len(plan.tables) + len(refused)
    return SomeTablesFailed(
        f"{len(all_failures)} of {tables} tables failed, the others are done: {told}{more}",
        hint=hint,
        failures=all_failures,
        operation=operation,
    )
