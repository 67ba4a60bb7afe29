"""`policy run`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lakewarden.errors import LakewardenError
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.policy.upkeep import KINDS, Kind, Worth, upkeep, verbs_of
from lakewarden.features.retention.expiry import InUse, with_percent
from lakewarden.features.table.damage import explaining
from lakewarden.features.table.each import joined, refusal
from lakewarden.features.table.select import Selects
from lakewarden.lifecycle.plan import Action, Outcome, Plan
from lakewarden.lifecycle.request import Operation
from lakewarden.quantities import Duration

if TYPE_CHECKING:
    from lakewarden.engine.reference import TableName
    from lakewarden.lifecycle.ground import Reader, Writer


class Run(Selects, Operation):
    """Do all the upkeep that the policies ask for: expire old versions, merge manifests, compact files.

    Rows that erasure hide has hidden and that a branch shows again are hidden again. New data of tables that people
    were erased from is looked at too: exit code 3 where any of them came back.

    Every table is meant unless some are named. Tables that gain most for the time it takes come first; what does not
    pay is left. At the end of the budget it stops between two steps, and lists what is left for the next run.
    """

    destructive = True
    all_unless_said = True

    only: list[Kind] = Field(list(KINDS), description="Only these, as in retention,compaction.")
    parallel: int = Field(1, ge=1, le=64, description="How many tables to work on at once.")
    budget: Duration | None = Field(None, description="Stop beginning anything new after this long, as in 2h.")

    def plan(self, lake: Reader) -> Plan:
        in_use, neighbours = InUse(lake), Neighbours(lake)

        def guarded(name: TableName) -> Worth:
            try:
                with explaining(lake, name):
                    return upkeep(lake, self.kind(), name, self.only, in_use, neighbours)
            except LakewardenError as error:
                if self.is_one:
                    raise
                return Worth(Plan(self.kind(), str(name), refused=(refusal(str(name), error),)), 0.0)

        worth = list(lake.tables.read_all(self.chosen(lake), guarded))
        worth.sort(key=lambda one: -one.points_per_second)
        whole = joined(self.kind(), self.target, [one.plan for one in worth])
        return whole if self.is_one else replace(whole, verdicts=())  # of many tables nobody would read them all

    def skips_held(self) -> bool:
        return not self.is_one

    def holds(self, action: Action, lake: Reader) -> bool:
        return verbs_of(action).holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return verbs_of(action).apply(action, lake)

    def concluded(self, result: dict[str, Any]) -> dict[str, Any]:
        return with_percent(result)

    def enough(self, elapsed: timedelta) -> bool:
        return self.budget is not None and elapsed >= self.budget
