"""`erasure watch`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.features.erasure.recurrence import watch_action
from lakewarden.features.shared.each import plan_each
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation


class Watch(Selects, TableOperation):
    """Look whether people who were erased came back with data that is new since then.

    Every table that a closed request was about is meant unless some are named. Only the key columns of new files are
    read, each file once. Values are known by their keyed digests, for nothing else is left of them. Exit code 3
    where somebody came back.
    """

    all_by_default = True

    again: bool = Field(False, description="Ask for those who came back to be erased again: a new request for them.")

    def plan(self, lake: Reader) -> Plan:
        def plan_one(name: TableName) -> Plan:
            if not self.is_one and not watch_action.declared(lake.settings, name).value:
                return Plan(self.kind(), str(name))
            return watch_action.plan_for(lake, self.kind(), name, self.again)

        return plan_each(lake, self.kind(), self, plan_one)

    def holds(self, action: Action, lake: Reader) -> bool:
        return watch_action.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return watch_action.apply(action, lake)
