"""Erasure's parts of upkeep: rows that are visible again are hidden again, and erased values that return are found."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.features.erasure.hidden import hide_action
from lakewarden.features.erasure.hidden.missing_hides import rows_shown_again
from lakewarden.features.erasure.recurrence import watch_action
from lakewarden.features.erasure.requests import mark_action
from lakewarden.features.shared.planner import Place, Planner, TableUpkeep
from lakewarden.lifecycle.plan import Plan
from lakewarden.records.erasure import ErasureState


def _plan_hides(on: TableUpkeep) -> Plan:
    return on.planned(*hide_action.missing(on.lake, on.round.kind, on.name, on.table))


def _plan_watch(on: TableUpkeep) -> Plan:
    """Search new data for erased values, if the policy says so."""
    wanted = watch_action.declared(on.lake.settings, on.name).value
    return on.planned(*(watch_action.plan_for(on.lake, on.round.kind, on.name).actions if wanted else ()))


def _plan_mark(on: TableUpkeep) -> Plan:
    action = mark_action.missettled(on.lake, on.name, on.table)
    return on.planned(*([action] if action else []))


def _symptoms(on: TableUpkeep) -> Mapping[str, int]:
    asked, now = on.lake.state.erasure.list([ErasureState.OPEN], str(on.table.metadata.table_uuid)), on.lake.clock()
    return {
        "rows_unhidden": rows_shown_again(on.lake, on.name, on.table),
        "requests_overdue": sum(request.is_overdue(now) for request in asked),
    }


PLANNERS = (
    Planner("hide", Place.FIRST, (hide_action.HIDE,), hide_action, _plan_hides, "erasure hide", _symptoms),
    Planner("mark", Place.LOOK, (mark_action.MARK,), mark_action, _plan_mark),
    Planner("watch", Place.LOOK, (watch_action.WATCH,), watch_action, _plan_watch),
)
