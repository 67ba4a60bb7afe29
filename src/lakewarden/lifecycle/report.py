"""How an applied operation ended, as every door shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakewarden.display import Shown
from lakewarden.lifecycle.journal import Progress, Record
from lakewarden.lifecycle.states import State


@dataclass(frozen=True)
class Report(Shown):
    """How an applied operation ended; one that had nothing to do was not written down and has no id."""

    id: str | None
    kind: str
    state: State
    result: dict[str, Any]
    left: tuple[str, ...] = ()
    """What was not begun when the operation reached its limit, as `subject: says`."""
    skipped: tuple[str, ...] = ()
    """Which subjects were left to other operations that hold them, each with its holder."""

    @staticmethod
    def of(record: Record) -> Report:
        pending = [step for step in record.steps if step.progress is Progress.PENDING]
        held = {step.subject: str(step.error["message"]) for step in pending if step.error}
        left = tuple(f"{step.subject}: {step.says}" for step in pending if step.subject not in held)
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
