"""Retention's part of upkeep: old versions expire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewarden.errors import BrokenTable, Conflict, DeletionForbidden, UnsupportedTable
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.retention import expiry
from lakewarden.features.retention.expiry import Expiring, InUse
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.each import refusal
from lakewarden.features.shared.planner import Place, Planner, TableUpkeep
from lakewarden.lifecycle.plan import Plan


def _expiring(on: TableUpkeep) -> Expiring:
    with explaining(on.lake, on.name):
        return expiry.look(on.lake, on.name, {}, False, on.round.once(InUse), on.round.plans, on.table)


def _plan(on: TableUpkeep) -> Plan:
    """Expire old versions. If that is not possible for this table, other parts of upkeep still run."""
    target, nothing = str(on.name), on.planned()
    try:
        found = expiry.actions_for(on.lake, on.round.kind, on.once(_expiring), on.round.once(Neighbours))
        return found if found.actions else replace(found, verdicts=())
    except DeletionForbidden as forbidden:  # the table's own setting, not a failure
        return replace(nothing, warnings=(f"{forbidden.message}; its old versions are kept",))
    except UnsupportedTable:
        raise  # policy run names the table as skipped
    except (BrokenTable, Conflict) as error:
        return replace(nothing, refused=(refusal(target, error),))


def _symptoms(on: TableUpkeep) -> Mapping[str, int]:
    location = on.table.metadata_location
    counted = {
        "versions": len(on.table.metadata.snapshots),
        "metadata_bytes": on.lake.storage(on.name.lake).sizes([location])[location] or 0,
    }
    try:
        found = on.once(_expiring)
    except BrokenTable:
        if on.round.plans:  # the plan reports it
            return counted
        raise
    return {**counted, "versions_expirable": len(found.decisions.expired) if found.may_delete else 0}


PLANNERS = (
    Planner(
        "retention", Place.EXPIRE, (expiry.EXPIRE,), expiry, _plan, "retention expire", _symptoms, expiry.with_percent
    ),
)
