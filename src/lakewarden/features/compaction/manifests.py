"""`compaction manifests`."""

from __future__ import annotations

from lakewarden.engine.base.table_name import TableName
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
    actions = manifest_merge

    def plan_table(self, lake: Reader, name: TableName) -> Plan:
        return Plan(self.kind(), str(name), manifest_merge.actions_for(lake, name))
