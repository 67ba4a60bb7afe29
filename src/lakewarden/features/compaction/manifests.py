"""`compaction manifests`."""

from __future__ import annotations

from lakewarden.features.compaction import manifest_merge
from lakewarden.features.shared.each import TablesOperation
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.plan import Plan


class Manifests(TablesOperation):
    """Merge many small manifests into few, ordered by partition, so that reads are planned faster.

    Readers see the same rows. A merge pays off from ten manifests on.
    """

    destructive = True
    is_upkeep = True

    def plan(self, lake: Reader) -> Plan:
        return self.plan_each(lake, lambda name: Plan(self.kind(), str(name), manifest_merge.actions_for(lake, name)))
