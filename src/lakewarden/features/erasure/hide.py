"""`erasure hide`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.features.erasure.hidden import hide_action
from lakewarden.features.erasure.requests.current_names import current_name
from lakewarden.features.erasure.requests.due import named_open
from lakewarden.features.shared.each import TablesOperation
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.plan import Plan
from lakewarden.records.erasure import ErasureRequest


class Hide(TablesOperation):
    """Hide the rows of open requests from every engine, on every branch, until they are purged or withdrawn.

    Each branch gets one commit with one delete file per affected data file, also for requests in their grace period.
    Withdrawing a request shows exactly its rows again. Tags and earlier versions cannot be changed and show the rows
    until a purge.
    """

    destructive = True

    request: list[str] = Field([], description="Only these requests; in all their tables unless tables are named.")
    now: bool = Field(
        False, description="Include requests in their grace period where hiding is permanent, such as on format v3."
    )

    def chosen(self, lake: Reader) -> list[TableName]:
        if self.request and self.table is None and not self.all and self.namespace is None:
            asked = {key.uuid: key.table for request in self._named(lake) for key in request.keys}
            return [lake.tables.name(current_name(lake, table, uuid)) for uuid, table in asked.items()]
        return super().chosen(lake)

    def plan(self, lake: Reader) -> Plan:
        named = [request.id for request in self._named(lake)]
        return self.plan_each(lake, lambda name: hide_action.plan_for(lake, self.kind(), name, named, self.now))

    def _named(self, lake: Reader) -> list[ErasureRequest]:
        return named_open(lake, self.request, "Only rows of open requests can be hidden.")
