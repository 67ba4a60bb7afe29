"""`erasure watch`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.features.erasure.recurrence import watch_action
from lakewarden.features.shared.each import TablesOperation
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.plan import Plan


class Watch(TablesOperation):
    """Search new data for erased values that came back.

    All tables with closed requests are searched unless some are named. Only the key columns of new files are read, each
    file once. Values are recognised by their keyed digests, since the values were deleted. Exit code 3 if any came
    back.
    """

    all_by_default = True

    again: bool = Field(False, description="Register a new erasure request for the values that came back.")

    def plan(self, lake: Reader) -> Plan:
        def plan_one(name: TableName) -> Plan:
            if not self.is_one and not watch_action.declared(lake.settings, name).value:
                return Plan(self.kind(), str(name))
            return watch_action.plan_for(lake, self.kind(), name, self.again)

        return self.plan_each(lake, plan_one)
