"""All of a table's upkeep at once: what its policies would have done to it, in order, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from lakewarden.features.compaction import compacting, manifest_merge
from lakewarden.features.compaction.survey import Survey, survey
from lakewarden.features.retention import expiry
from lakewarden.features.retention.expiry import Expiring
from lakewarden.features.table.condition import Complaint, Symptoms, complaints
from lakewarden.lifecycle.plan import Action, Outcome, Plan

if TYPE_CHECKING:
    from lakewarden.engine.reference import TableName
    from lakewarden.lifecycle.ground import Reader, Writer

Kind = Literal["retention", "manifests", "compaction"]
KINDS: tuple[Kind, ...] = get_args(Kind)
UPKEEP = ("policy.run", "retention.expire", "compaction.compact", "compaction.manifests")
_SECONDS_AN_ACTION = 1.0  # what a commit takes beside the work itself


@dataclass(frozen=True)
class Verbs:
    """How the actions of one kind are looked up and applied."""

    names: tuple[str, ...]
    holds: Callable[[Action, Reader], bool]
    apply: Callable[[Action, Writer], Outcome]


VERBS = (
    Verbs((expiry.EXPIRE, expiry.REMOVE), expiry.holds, expiry.apply),
    Verbs((manifest_merge.MERGE,), manifest_merge.holds, manifest_merge.apply),
    Verbs((compacting.COMPACT, compacting.SORT), compacting.holds, compacting.apply),
)


def verbs_of(action: Action) -> Verbs:
    return next(verbs for verbs in VERBS if action.verb in verbs.names)


@dataclass(frozen=True)
class Worth:
    """One table's part of a run, and how many points of its condition a second of it brings."""

    plan: Plan
    points_per_second: float


def upkeep(lake: Reader, kind: str, name: TableName, only: Sequence[str], in_use: expiry.InUse) -> Worth:
    """What upkeep a table needs: old versions first, then manifests, then files."""
    expiring = expiry.look(lake, name, {}, False, in_use) if "retention" in only else None
    found = survey(lake, name, {}) if "compaction" in only else None
    retention = expiry.actions_for(lake, kind, expiring) if expiring else Plan(kind, str(name))
    merging = manifest_merge.actions_for(lake, name) if "manifests" in only else ()
    actions = (*retention.actions, *merging, *(compacting.actions_for(found) if found else ()))
    plan = Plan(kind, str(name), actions, retention.warnings, verdicts=retention.verdicts if retention.actions else ())
    seconds = plan.estimate.seconds + _SECONDS_AN_ACTION * len(actions)
    points = sum(complaint.points for complaint in complaints(symptoms(lake, name, expiring, found)))
    return Worth(plan, points / seconds if actions else 0.0)


def diagnosis(lake: Reader, name: TableName, in_use: expiry.InUse) -> tuple[Symptoms, list[Complaint]]:
    """What is wrong with a table, from metadata alone."""
    expiring = expiry.look(lake, name, {}, False, in_use, with_files=False)
    found = symptoms(lake, name, expiring, survey(lake, name, {}))
    return found, complaints(found)


def symptoms(lake: Reader, name: TableName, expiring: Expiring | None, found: Survey | None) -> Symptoms:
    """What can be counted of a table."""
    files = found.files if found else None
    manifests = files.manifests if files else []
    bundles = manifest_merge.bundles(manifests)
    after = found.packing.files - found.packing.files_after(found.policy) if found else 0
    table = expiring.table if expiring else found.table if found else lake.tables.load(name)
    stored = lake.storage(name.lake).sizes([table.metadata_location])[table.metadata_location] or 0
    return Symptoms(
        files=len(files.data) if files else 0,
        small_files=sum(file.bytes < found.policy.small for file in files.data) if files and found else 0,
        delete_files=len({delete.path for delete in files.deletes}) if files else 0,
        files_saved=max(after, 0),
        rows=sum(file.rows for file in files.data) if files else 0,
        rows_masked=sum(files.masked(file) for file in files.data if file.deletes) if files else 0,
        versions=len(expiring.decisions.versions) if expiring else 0,
        versions_expirable=len(expiring.decisions.expired) if expiring else 0,
        manifests=len(manifests),
        manifests_saved=sum(len(bundle) - 1 for bundle in bundles),
        metadata_bytes=stored,
    )
