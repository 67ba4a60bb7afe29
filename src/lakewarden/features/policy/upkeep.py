"""The whole upkeep of a table: what all planners would do, in order, and how much that gains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakewarden.features.policy.condition import Complaint, Symptoms, complaints
from lakewarden.features.shared.planner import Place, Planner, TableUpkeep, planners
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.plan import Plan

KINDS = tuple(planner.name for planner in planners())
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[KINDS]
_KEEPS = (Place.EXPIRE, Place.METADATA, Place.REWRITE)
UPKEEP = ("policy.run", *(planner.remedy.replace(" ", ".") for planner in planners() if planner.place in _KEEPS))
"""The kinds of operations that count as a table's last upkeep."""
_SECONDS_AN_ACTION = 1.0  # for the commit, besides the work itself


@dataclass(frozen=True)
class Worth:
    """The plan for one table, and the health points that it gains per second."""

    plan: Plan
    points_per_second: float


def upkeep(on: TableUpkeep) -> Worth:
    """The upkeep that a table needs, limited to the selected parts."""
    chosen = [planner for planner in planners() if planner.name in on.round.only]
    planned = [(planner, planner.plan(on)) for planner in chosen]
    parts = [plan for _, plan in sorted(planned, key=lambda part: _place(part[0], planned))]
    plan = Plan(
        on.round.kind,
        str(on.name),
        tuple(action for part in parts for action in part.actions),
        tuple(warning for part in parts for warning in part.warnings),
        tuple(refused for part in parts for refused in part.refused),
        tuple(verdict for part in parts for verdict in part.verdicts),
    )
    seconds = plan.estimate.seconds + _SECONDS_AN_ACTION * len(plan.actions)
    remedies = {planner.remedy for planner, part in planned if part.actions}
    points = sum(wrong.points for wrong in complaints(_symptoms(on, chosen)) if wrong.remedy in remedies)
    return Worth(plan, points / seconds if plan.actions else 0.0)


def diagnosis(on: TableUpkeep) -> tuple[Symptoms, list[Complaint]]:
    """What is wrong with a table, from metadata alone."""
    found = _symptoms(on, planners())
    return found, complaints(found)


def _place(planner: Planner, planned: list[tuple[Planner, Plan]]) -> Place:
    """When a part is applied: a part that comes first would make a rewrite on Spark stale, so it runs after it."""
    rewrites = [plan for other, plan in planned if other.place is Place.REWRITE]
    waits = any(action.route == SPARK_SQL for plan in rewrites for action in plan.actions)
    return Place.AFTER_REWRITE if waits and planner.place is Place.FIRST else planner.place


def _symptoms(on: TableUpkeep, asked: Iterable[Planner]) -> Symptoms:
    return Symptoms(**{name: count for planner in asked for name, count in planner.symptoms(on).items()})
