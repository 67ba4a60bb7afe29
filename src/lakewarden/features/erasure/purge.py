"""`erasure purge`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr

from lakewarden.errors import LakewardenError
from lakewarden.features.erasure import planning, proving, purging
from lakewarden.features.erasure.due import Due, agenda
from lakewarden.features.erasure.proofs import ThisRun
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.table.each import joined, refusal
from lakewarden.lifecycle.plan import Action, Outcome, Plan
from lakewarden.lifecycle.request import Completes, Operation, Positional

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer


class Purge(Operation):
    """Erase the rows of requests from every version of their tables, and prove it.

    Every branch and tag keeps its name, settings, schema and all other rows, and points to a version without the rows;
    the versions that had them expire in the same commit, and files that hold them leave storage at once. Then all
    that is stored of the table is looked through: only a clean proof closes a request.
    """

    destructive = True

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table: what is due there."
    )
    all: bool = Field(False, description="All that is due, in every table.")
    request: list[str] = Field([], description="Only these requests.")
    now: bool = Field(False, description="Also requests that are still in their grace.")
    lose_columns: bool = Field(
        False, description="On format v3, even where a tag loses columns that the table has no more."
    )
    _run: ThisRun = PrivateAttr(default_factory=ThisRun)

    def plan(self, lake: Reader) -> Plan:
        found, neighbours = agenda(lake, self.table, self.all, self.request, self.now), Neighbours(lake)
        target = self.table or ", ".join(self.request) or "all tables"

        def plan_one(due: Due) -> Plan:
            try:
                return planning.plan_for(lake, self.kind(), due, neighbours, self.lose_columns)
            except LakewardenError as error:
                if len(found.tables) == 1:
                    raise
                return Plan(self.kind(), due.table, refused=(refusal(due.table, error),))

        parts = [plan_one(due) for due in found.tables]
        plan = joined(self.kind(), target, [Plan(self.kind(), target, warnings=found.waiting), *parts])
        return replace(plan, warnings=tuple(dict.fromkeys(plan.warnings)))

    def holds(self, action: Action, lake: Reader) -> bool:
        return proving.holds(action, lake, self._run) if action.verb == proving.PROVE else purging.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return proving.apply(action, lake, self._run) if action.verb == proving.PROVE else self._purge(action, lake)

    def _purge(self, action: Action, lake: Writer) -> Outcome:
        return purging.apply(action, lake, self.lose_columns)

    def concluded(self, result: dict[str, Any]) -> dict[str, Any]:
        return self._run.concluded({**purging.NOTHING, **result} if result else result)
