"""`retention expire`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.retention import expiry
from lakewarden.features.retention.policy import policy_of, refuse_short_production
from lakewarden.features.shared.each import plan_each
from lakewarden.features.shared.select import Selects
from lakewarden.features.version import holders
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation
from lakewarden.quantities import Duration


class Expire(Selects, TableOperation):
    """Let old versions go, and remove the files that only they needed.

    A version stays if it is current, among the newest, young enough, tagged, at the head of a branch or in its
    history, or needed by an operation under way. A compaction holds the version it was built on in other files: it
    keeps that version, and the snapshot before it expires once reader_grace is over. Settings that no option gives
    come from the configuration, the table's own properties, its layer, or the defaults; lakewarden policy show names
    the source of each. The plan lists every file that would be removed, and only those are.
    """

    destructive = True

    keep_last: int | None = Field(None, ge=1, description="Keep this many of the newest versions of each branch.")
    keep_days: int | None = Field(None, ge=0, description="Keep versions younger than this many days.")
    production_keep_days: int | None = Field(
        None, ge=0, description="Keep versions of production tables younger than this many days."
    )
    keep_tagged: bool | None = Field(None, description="Whether a tag keeps its version.")
    reader_grace: Duration | None = Field(
        None, description="How long a snapshot stays after a compaction replaced it, as in 1d: reads that began before."
    )
    even_production: bool = Field(False, description="Let --keep-days shorten the retention of production tables too.")
    expire_tags: bool = Field(False, description="Also let tags go whose keep period is over.")

    def plan(self, lake: Reader) -> Plan:
        in_use, neighbours = expiry.InUse(lake), Neighbours(lake)
        options = {
            "keep_last": self.keep_last,
            "keep_days": self.keep_days,
            "production_keep_days": self.production_keep_days,
            "keep_tagged": self.keep_tagged,
            "reader_grace": self.reader_grace,
        }

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

        return plan_each(lake, self.kind(), self, plan_one)

    def skips_held(self) -> bool:
        return not self.is_one

    def holds(self, action: Action, lake: Reader) -> bool:
        return expiry.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return expiry.apply(action, lake)

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        return expiry.with_percent(result)
