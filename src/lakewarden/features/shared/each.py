"""Operations on many tables: each table is planned separately, so that one failure does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.planner import actions_of, planner_of
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation


class TablesOperation(Selects, TableOperation):
    """An operation on selected tables whose actions are those of upkeep."""

    is_upkeep: ClassVar[bool] = False
    """Whether tables that another operation holds are skipped, unless a single one was named."""

    def holds(self, action: Action, lake: Reader) -> bool:
        return actions_of(action).holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return actions_of(action).apply(action, lake)

    def done_already(self, action: Action, lake: Writer) -> Outcome:
        planner = planner_of(action)
        return planner.done_already(action, lake) if planner else super().done_already(action, lake)

    def skips_held(self) -> bool:
        return self.is_upkeep and not self.is_one

    def plan_each(self, lake: Reader, plan_one: Callable[[TableName], Plan]) -> Plan:
        """One plan for all selected tables. If a single table was named, its error is raised instead of listed."""

        def explained(name: TableName) -> Plan:
            with explaining(lake, name):
                return plan_one(name)

        def guarded(name: TableName) -> Plan:
            try:
                return explained(name)
            except LakewardenError as error:
                return Plan(self.kind(), str(name), refused=(refusal(str(name), error),))

        names = self.chosen(lake)
        if self.is_one:
            return replace(explained(names[0]), kind=self.kind(), target=str(names[0]))
        return joined(self.kind(), self.target, list(lake.tables.read_all(names, guarded)))


def refusal(table: str, error: LakewardenError) -> Finding:
    return Finding(table, f"{error.message}. {error.hint}" if error.hint else error.message)


def joined(kind: str, target: str, parts: Sequence[Plan]) -> Plan:
    return Plan(
        kind,
        target,
        actions=tuple(action for part in parts for action in part.actions),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        refused=tuple(finding for part in parts for finding in part.refused),
        verdicts=tuple(verdict for part in parts for verdict in part.verdicts),
    )
