"""The result of an applied operation, as shown to users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakewarden.display import Shown
from lakewarden.lifecycle.journal import Progress, Record
from lakewarden.lifecycle.states import State


@dataclass(frozen=True)
class Report(Shown):
    """The result of an applied operation; one that had nothing to do was not recorded and has no id."""

    id: str | None
    kind: str
    state: State
    result: dict[str, Any]
    left: tuple[str, ...] = ()
    """Actions not started when the operation reached its limit, as `subject: says`."""
    skipped: tuple[str, ...] = ()
    """Subjects skipped because other operations hold them, each with its holder."""

    @staticmethod
    def of(record: Record) -> Report:
        pending = [step for step in record.steps if step.progress is Progress.PENDING]
        held = {step.subject: str(step.error["message"]) for step in pending if step.error}
        left = tuple(f"{step.subject}: {step.says}" for step in pending if step.subject not in held)
        return Report(record.id, record.kind, record.state, dict(record.result or {}), left, tuple(held.values()))

    def document(self) -> dict[str, Any]:
        """The report as shown to users. It has no findings: an operation with findings fails with an error."""
        return {
            "operation": {"id": self.id, "kind": self.kind, "state": str(self.state)},
            "result": self.result,
            "findings": [],
            **({"left": list(self.left)} if self.left else {}),
            **({"skipped": list(self.skipped)} if self.skipped else {}),
        }
