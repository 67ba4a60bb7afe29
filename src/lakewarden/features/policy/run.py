"""`policy run`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError, UnsupportedTable
from lakewarden.features.policy.upkeep import KINDS, Kind, Worth, upkeep
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.each import TablesOperation, joined, refusal
from lakewarden.features.shared.planner import Round, TableUpkeep, planners
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.states import Stop
from lakewarden.quantities import Duration


class Run(TablesOperation):
    """Do the upkeep that the policies require: expire old versions, merge manifests, compact files.

    Rows that erasure hide has hidden and that a branch shows again are hidden again. New data in tables with closed
    erasure requests is searched for erased values: exit code 3 if any came back. Partitions of view sets that are older
    than they are kept are retired.

    All tables are processed unless some are named. Tables that gain most per second come first; what does not pay off
    is left out. When the budget is used up, the run stops between two steps and lists what is left for the next run.
    """

    destructive = True
    is_upkeep = True
    all_by_default = True

    only: list[Kind] = Field(list(KINDS), description="Only these parts, as in retention,compaction.")
    parallel: int = Field(1, ge=1, le=64, description="Number of tables to process in parallel.")
    budget: Duration | None = Field(None, description="Start nothing new after this long, as in 2h.")

    def plan(self, lake: Reader) -> Plan:
        looks = Round(lake, self.kind(), self.only)

        def guarded(name: TableName) -> Worth:
            try:
                with explaining(lake, name):
                    return upkeep(TableUpkeep(looks, name))
            except LakewardenError as error:
                if self.is_one:
                    raise
                if isinstance(error, UnsupportedTable):
                    return Worth(Plan(self.kind(), str(name), warnings=(f"{name} is skipped: {error.message}",)), 0.0)
                return Worth(Plan(self.kind(), str(name), refused=(refusal(str(name), error),)), 0.0)

        worth = list(lake.tables.read_all(self.chosen(lake), guarded))
        worth.sort(key=lambda one: -one.points_per_second)
        whole = joined(self.kind(), self.target, [one.plan for one in worth])
        return whole if self.is_one else replace(whole, verdicts=())  # too many to read

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        for planner in planners():
            result = planner.concluded(result)
        return result

    def limit_reached(self, elapsed: timedelta, begun: int) -> Literal[Stop.BUDGET] | None:
        return Stop.BUDGET if self.budget is not None and elapsed >= self.budget else None
