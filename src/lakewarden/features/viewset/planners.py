"""View sets' part of upkeep: partitions that are older than their view set keeps them are retired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewarden.features.shared.planner import Place, Planner, TableUpkeep
from lakewarden.features.viewset import retiring
from lakewarden.features.viewset.catalogue import PartitionRow, outdated
from lakewarden.features.viewset.definition import PROPERTY, view_set_of
from lakewarden.features.viewset.upgraded import is_upgraded
from lakewarden.lifecycle.plan import Plan


def _outdated(on: TableUpkeep) -> list[PartitionRow]:
    if PROPERTY not in on.table.metadata.properties:  # nor has the table of empty partitions it
        return []
    return outdated(on.lake, view_set_of(on.lake, str(on.name)))


def _plan(on: TableUpkeep) -> Plan:
    rows = on.once(_outdated)
    if rows and is_upgraded(on.lake, view_set_of(on.lake, str(on.name))):
        told = "in format v3 partitions of view sets can only be added: outdated ones stay"
        return replace(on.planned(), warnings=(f"{on.name}: {told}",))
    return on.planned(*(retiring.actions_for(view_set_of(on.lake, str(on.name)), rows) if rows else ()))


def _symptoms(on: TableUpkeep) -> Mapping[str, int]:
    return {"partitions_outdated": len({row.identity for row in on.once(_outdated)})}


PLANNERS = (
    Planner(
        "viewset",
        Place.FIRST,
        (retiring.RETIRE,),
        retiring,
        _plan,
        "policy run --only viewset",
        _symptoms,
        done_already=retiring.done_already,
    ),
)
