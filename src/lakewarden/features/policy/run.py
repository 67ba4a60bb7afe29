"""`policy run`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.policy.upkeep import KINDS, Kind, Worth, upkeep
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.each import joined, refusal
from lakewarden.features.shared.planner import Round, TableUpkeep, actions_of, planners
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation
from lakewarden.lifecycle.states import Stop
from lakewarden.quantities import Duration


class Run(Selects, TableOperation):
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
        looks = Round(lake, self.kind(), self.only)

        def guarded(name: TableName) -> Worth:
            try:
                with explaining(lake, name):
                    return upkeep(TableUpkeep(looks, name))
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
        return actions_of(action).holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return actions_of(action).apply(action, lake)

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        for planner in planners():
            result = planner.concluded(result)
        return result

    def enough(self, elapsed: timedelta, begun: int) -> Literal[Stop.BUDGET] | None:
        return Stop.BUDGET if self.budget is not None and elapsed >= self.budget else None
