"""`retention expire`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.retention import expiry
from lakewarden.features.retention.policy import policy_of, refuse_short_production
from lakewarden.features.shared.each import TablesOperation
from lakewarden.features.version import holders
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.plan import Plan
from lakewarden.quantities import Duration


class Expire(TablesOperation):
    """Expire old versions, and remove the files that only they need.

    A version is kept if it is current, among the newest, young enough, tagged, the head of a branch or in its history,
    or needed by a running operation. A compaction stores the same version in other files: the snapshot it replaced
    expires once reader_grace is over. Settings that are not given as options come from the configuration, the table's
    properties, its layer, or the defaults; lakewarden policy show names the source of each. The plan lists every file
    that would be removed, and no other file is.
    """

    destructive = True
    is_upkeep = True

    keep_last: int | None = Field(None, ge=1, description="Keep this many of the newest versions of each branch.")
    keep_days: int | None = Field(None, ge=0, description="Keep versions younger than this many days.")
    production_keep_days: int | None = Field(
        None, ge=0, description="Keep versions of production tables younger than this many days."
    )
    keep_tagged: bool | None = Field(None, description="Whether a tag keeps its version.")
    reader_grace: Duration | None = Field(
        None, description="Keep a snapshot this long after a compaction replaced it, as in 1d, for running reads."
    )
    even_production: bool = Field(False, description="Allow --keep-days to shorten the retention of production tables.")
    expire_tags: bool = Field(False, description="Also expire tags whose keep period is over.")

    def plan(self, lake: Reader) -> Plan:
        in_use, neighbours = expiry.InUse(lake), Neighbours(lake)
        given = ("keep_last", "keep_days", "production_keep_days", "keep_tagged", "reader_grace")
        options = {option: getattr(self, option) for option in given}

        def plan_one(name: TableName) -> Plan:
            if self.keep_days is not None and self.production_keep_days is None and not self.even_production:
                own = policy_of(lake.settings, name, lake.tables.load(name).metadata.properties, {})
                refuse_short_production(own, self.keep_days, name)
            found = expiry.look(lake, name, options, self.expire_tags, in_use)
            plan, decisions = expiry.actions_for(lake, self.kind(), found, neighbours), found.decisions
            if not (plan.actions or self.is_one):
                return plan
            kept = holders.largest(lake, name, found.table, decisions.expired, decisions.tags_going)
            return replace(plan, warnings=(*plan.warnings, kept)) if kept else plan

        return self.plan_each(lake, plan_one)

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        return expiry.with_percent(result)
