"""Planning for many tables: each by itself, so that one which cannot be planned for does not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Finding
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.plan import Plan


def plan_each(lake: Reader, kind: str, request: Selects, plan_one: Callable[[TableName], Plan]) -> Plan:
    """One plan for all chosen tables; where a single one was named, what is wrong with it is raised."""
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
    """What is said of a table that was asked for and cannot be done: what is the case, and what to do about it."""
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
