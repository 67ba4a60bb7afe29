"""All of a table's upkeep at once: what its policies would have done to it, in order, and what that is worth.

Last of all, new data of tables that people were erased from is looked at, whether any of them came back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from lakewarden.errors import BrokenTable, Conflict, DeletionForbidden
from lakewarden.features.compaction import compacting, manifest_merge
from lakewarden.features.compaction.survey import Survey, survey
from lakewarden.features.erasure import masks, watching
from lakewarden.features.erasure.missing_hides import rows_shown_again
from lakewarden.features.retention import expiry
from lakewarden.features.retention.expiry import Expiring
from lakewarden.features.table.condition import (
    COMPACT_FILES,
    EXPIRE_VERSIONS,
    HIDE_ROWS,
    MERGE_MANIFESTS,
    Complaint,
    Symptoms,
    complaints,
)
from lakewarden.features.table.damage import explaining
from lakewarden.features.table.each import refusal
from lakewarden.lifecycle.plan import SPARK_SQL, Action, Finding, Outcome, Plan
from lakewarden.lifecycle.tombstones import ErasureState

if TYPE_CHECKING:
    from lakewarden.engine.reference import TableName
    from lakewarden.features.orphan.neighbours import Neighbours
    from lakewarden.lifecycle.ground import Reader, Writer

Kind = Literal["retention", "manifests", "compaction", "hide", "watch"]
KINDS: tuple[Kind, ...] = get_args(Kind)
UPKEEP = ("policy.run", "retention.expire", "compaction.compact", "compaction.manifests")
_SECONDS_AN_ACTION = 1.0  # what a commit takes beside the work itself


@dataclass(frozen=True)
class Verbs:
    """How the actions of one kind are looked up and applied."""

    names: tuple[str, ...]
    holds: Callable[[Action, Reader], bool]
    apply: Callable[[Action, Writer], Outcome]


_REMEDIES = {
    expiry.EXPIRE: EXPIRE_VERSIONS,
    manifest_merge.MERGE: MERGE_MANIFESTS,
    compacting.COMPACT: COMPACT_FILES,
    compacting.SORT: COMPACT_FILES,
    masks.HIDE: HIDE_ROWS,
}
VERBS = (
    Verbs((expiry.EXPIRE,), expiry.holds, expiry.apply),
    Verbs((manifest_merge.MERGE,), manifest_merge.holds, manifest_merge.apply),
    Verbs((compacting.COMPACT, compacting.SORT), compacting.holds, compacting.apply),
    Verbs((masks.HIDE,), masks.holds, masks.apply),
    Verbs((watching.WATCH,), watching.holds, watching.apply),
)


def verbs_of(action: Action) -> Verbs:
    return next(verbs for verbs in VERBS if action.verb in verbs.names)


@dataclass(frozen=True)
class Worth:
    """One table's part of a run, and how many points of its condition a second of it brings."""

    plan: Plan
    points_per_second: float


def upkeep(
    lake: Reader, kind: str, name: TableName, only: Sequence[str], in_use: expiry.InUse, neighbours: Neighbours
) -> Worth:
    """What upkeep a table needs: missing hides, old versions, manifests, files, and people who came back."""
    expiring, refused = _expiring(lake, name, in_use) if "retention" in only else (None, ())
    found = survey(lake, name, {}, table=expiring.table if expiring else None)
    compaction = compacting.actions_for(found) if "compaction" in only else ()
    retention = _retention(lake, kind, expiring, neighbours) if expiring else Plan(kind, str(name))
    merging = manifest_merge.actions_for(lake, name, _more_manifests(found, compaction)) if "manifests" in only else ()
    hides = masks.missing(lake, kind, name, found.table) if "hide" in only else ()
    waits = any(action.route == SPARK_SQL for action in compaction)  # which a hide in between would make stale
    first, last = ((), hides) if waits else (hides, ())
    plan = replace(
        retention,
        refused=(*retention.refused, *refused),
        actions=(*first, *retention.actions, *merging, *compaction, *last, *_watch(lake, kind, name, only)),
        verdicts=retention.verdicts if retention.actions else (),
    )
    seconds = plan.estimate.seconds + _SECONDS_AN_ACTION * len(plan.actions)
    remedies = {_REMEDIES[action.verb] for action in plan.actions if action.verb in _REMEDIES}
    found_wrong = complaints(symptoms(lake, name, expiring, found))
    points = sum(complaint.points for complaint in found_wrong if complaint.remedy in remedies)
    return Worth(plan, points / seconds if plan.actions else 0.0)


def _expiring(lake: Reader, name: TableName, in_use: expiry.InUse) -> tuple[Expiring | None, tuple[Finding, ...]]:
    """What would expire; that a file of an older version is damaged holds up nothing else of a table's upkeep."""
    try:
        with explaining(lake, name):
            return expiry.look(lake, name, {}, False, in_use), ()
    except BrokenTable as error:
        return None, (refusal(str(name), error),)


def _watch(lake: Reader, kind: str, name: TableName, only: Sequence[str]) -> tuple[Action, ...]:
    """What looks whether somebody came back, where the policy says so."""
    wanted = "watch" in only and watching.declared(lake.settings, name).value
    return watching.plan_for(lake, kind, name).actions if wanted else ()


def _retention(lake: Reader, kind: str, expiring: Expiring, neighbours: Neighbours) -> Plan:
    """What lets old versions go; that a table forbids it, or Spark cannot, holds up nothing else of its upkeep."""
    target = str(expiring.name)
    try:
        return expiry.actions_for(lake, kind, expiring, neighbours)
    except DeletionForbidden as forbidden:  # the table's own wish, and no failure
        return Plan(kind, target, warnings=(f"{forbidden.message}; its old versions stay",))
    except Conflict as conflict:
        return Plan(kind, target, refused=(refusal(target, conflict),))


def _more_manifests(found: Survey, compaction: Sequence[Action]) -> int:
    """How many manifests the compaction of this very run will add: one for each spec that it writes files of."""
    specs = {file.partition[0] for bin in found.packing.bins for file in bin.files}
    return len(specs) if compaction else 0


def diagnosis(lake: Reader, name: TableName, in_use: expiry.InUse) -> tuple[Symptoms, list[Complaint]]:
    """What is wrong with a table, from metadata alone."""
    expiring = expiry.look(lake, name, {}, False, in_use, with_files=False)
    found = symptoms(lake, name, expiring, survey(lake, name, {}, table=expiring.table))
    return found, complaints(found)


def symptoms(lake: Reader, name: TableName, expiring: Expiring | None, found: Survey) -> Symptoms:
    """What can be counted of a table, and what of it upkeep would take away."""
    files, location = found.files, found.table.metadata_location
    bundles = manifest_merge.bundles(files.manifests)
    stored = lake.storage(name.lake).sizes([location])[location] or 0
    requests, now = lake.tombstones.list([ErasureState.OPEN], str(found.table.metadata.table_uuid)), lake.clock()
    return Symptoms(
        files=len(files.data),
        small_files=sum(file.bytes < found.policy.small for file in files.data),
        delete_files=len({delete.path for delete in files.deletes}),
        files_saved=max(found.packing.files - found.packing.files_after(found.policy), 0),
        rows=sum(file.rows for file in files.data),
        rows_masked=sum(files.masked(file) for file in files.data if file.deletes),
        rows_dropped=sum(bin.masked for bin in found.packing.bins),
        versions=len(found.table.metadata.snapshots),
        versions_expirable=len(expiring.decisions.expired) if expiring and expiring.may_delete else 0,
        manifests=len(files.manifests),
        manifests_saved=sum(len(bundle) - 1 for bundle in bundles),
        metadata_bytes=stored,
        unsafe_files=sum(file.lacks_nan_counts for bin in found.packing.bins for file in bin.files),
        rows_unhidden=rows_shown_again(lake, name, found.table),
        requests_overdue=sum(request.is_overdue(now) for request in requests),
    )
