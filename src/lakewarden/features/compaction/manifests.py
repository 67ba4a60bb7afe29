"""`compaction manifests`."""

from __future__ import annotations

from lakewarden.engine.base.table_name import TableName
from lakewarden.features.compaction import manifest_merge
from lakewarden.features.shared.each import plan_each
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation


class Manifests(Selects, TableOperation):
    """Write many small manifests as few, in order of partition, where that makes planning of reads cheaper.

    What readers see stays the same. Ten manifests must become one for it to pay.
    """

    destructive = True

    def plan(self, lake: Reader) -> Plan:
        def plan_one(name: TableName) -> Plan:
            return Plan(self.kind(), str(name), manifest_merge.actions_for(lake, name))

        return plan_each(lake, self.kind(), self, plan_one)

    def skips_held(self) -> bool:
        return not self.is_one

    def holds(self, action: Action, lake: Reader) -> bool:
        return manifest_merge.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return manifest_merge.apply(action, lake)
