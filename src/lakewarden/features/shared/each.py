"""Operations on many tables: each table is planned separately, so that one failure does not stop the others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.planner import ActionModule
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation


class TablesOperation(Selects, TableOperation):
    """An operation that is planned table by table."""

    is_upkeep: ClassVar[bool] = False
    """Whether tables that another operation holds are skipped, unless a single one was named."""
    actions: ClassVar[ActionModule]
    """Checks and applies the planned actions."""

    @abstractmethod
    def plan_table(self, lake: Reader, name: TableName) -> Plan: ...

    def plan(self, lake: Reader) -> Plan:
        return plan_each(lake, self.kind(), self, lambda name: self.plan_table(lake, name))

    def holds(self, action: Action, lake: Reader) -> bool:
        return self.actions.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return self.actions.apply(action, lake)

    def skips_held(self) -> bool:
        return self.is_upkeep and not self.is_one


def plan_each(lake: Reader, kind: str, request: Selects, plan_one: Callable[[TableName], Plan]) -> Plan:
    """One plan for all chosen tables. If a single table was named, its error is raised instead of listed."""
    names = request.chosen(lake)
    if request.is_one:
        with explaining(lake, names[0]):
            part = plan_one(names[0])
        return replace(part, kind=kind, target=str(names[0]))

    def guarded(name: TableName) -> Plan:
        try:
            with explaining(lake, name):
                return plan_one(name)
        except LakewardenError as error:
            return Plan(kind, str(name), refused=(refusal(str(name), error),))

    return joined(kind, request.target, list(lake.tables.read_all(names, guarded)))


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
