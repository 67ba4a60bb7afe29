"""Expiring versions: what goes and why, as a plan; the commit that lets them go; and the files that leave after it.

Two actions a table. The first lets snapshots and tags go, in one commit. The second removes the files that only
those led to: the ones the plan listed, as far as the metadata of that moment no longer leads to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.commit import Expiry
from lakewarden.engine.quarantine import Batch, QuarantinedFile, stash
from lakewarden.engine.reachable import ReachableFile
from lakewarden.engine.unreachable import Unreachable, still_unreachable, unreachable_after
from lakewarden.errors import DeletionForbidden, StalePlan, StorageUnavailable
from lakewarden.features.retention.policy import (
    Decision,
    Decisions,
    RetentionPolicy,
    decide,
    declared_policy,
    policy_of,
)
from lakewarden.features.table.summary import summary
from lakewarden.lifecycle.in_use import snapshots_in_use
from lakewarden.lifecycle.plan import SPARK_SQL, Action, Estimate, FileList, Outcome, Plan, PlannedFile, Verdict
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.states import UNFINISHED
from lakewarden.quantities import to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.reference import TableName
    from lakewarden.engine.route import Route
    from lakewarden.lifecycle.ground import Reader, Writer

EXPIRE, REMOVE = "expire", "remove"


@dataclass(frozen=True)
class Expiring:
    """What one table's expiry would take, before anything is done."""

    name: TableName
    table: Table
    policy: RetentionPolicy
    decisions: Decisions
    unreachable: Unreachable
    files: FileList


def look(
    lake: Reader,
    name: TableName,
    options: Mapping[str, Any],
    expire_tags: bool,
    in_use: InUse,
    with_files: bool = True,
) -> Expiring:
    """Decide on every version of a table, and find out which files that sets free, unless only the first matters."""
    table = lake.tables.load(name)
    policy = policy_of(declared_policy(lake.settings, name, table.metadata.properties, options))
    needed = in_use.of(str(name), table)
    decisions = decide(table, policy, lake.clock(), needed, expire_tags)
    nothing = Unreachable((), 0, 0)
    if not with_files:
        return Expiring(name, table, policy, decisions, nothing, FileList())
    unreachable = unreachable_after(table, decisions.expired) if decisions.expired else nothing
    files = [*unreachable.files, *_superseded_metadata(lake, table, policy)]
    return Expiring(name, table, policy, decisions, unreachable, _sized(lake, name, files))


class InUse:
    """Which snapshots operations under way need: those that they require, and those that they committed."""

    def __init__(self, lake: Reader, besides: str = "") -> None:
        self._required = snapshots_in_use(lake.journal, besides)
        self._unfinished = {
            record.id for record in lake.journal.list(states=sorted(UNFINISHED), limit=10**9) if record.id != besides
        }

    def of(self, name: str, table: Table) -> dict[int, str]:
        stamped = {
            snapshot.snapshot_id: summary(snapshot).get("lakewarden.operation", "")
            for snapshot in table.metadata.snapshots
        }
        own = {snapshot: operation for snapshot, operation in stamped.items() if operation in self._unfinished}
        there = set(stamped)
        required = self._required.get(name, {}) | self._required.get(str(table.metadata.table_uuid), {})
        return own | {snapshot: operation for snapshot, operation in required.items() if snapshot in there}


def actions_for(lake: Reader, kind: str, found: Expiring) -> Plan:
    """What lets a table's old versions go."""
    target, decisions = str(found.name), found.decisions
    warnings = [
        f"{target}: the keep period of tag {tag} is over; --expire-tags lets it go" for tag in decisions.tags_over
    ]
    if found.unreachable.elsewhere:
        warnings.append(f"{target}: {found.unreachable.elsewhere} files lie outside of its location and are left there")
    verdicts = tuple(_verdict(target, version) for version in decisions.versions)
    if not decisions.expired and not decisions.tags_going and not found.files.count:
        return Plan(kind, target, warnings=tuple(warnings), verdicts=verdicts)
    _check_deletion_allowed(found)
    route = lake.tables.route(found.table, found.name)
    actions = []
    if decisions.expired or decisions.tags_going:
        actions.append(_expire_action(found, route))
    if found.files.count:
        actions.append(_remove_action(lake, found, route))
    return Plan(kind, target, tuple(actions), tuple(warnings), verdicts=verdicts)


def _verdict(target: str, version: Decision) -> Verdict:
    verdict = "kept" if version.kept else "expired"
    return Verdict(target, str(version.snapshot_id), version.committed_at, verdict, version.reasons)


def holds(action: Action, lake: Reader) -> bool:
    """Whether the versions have gone, or the files have left."""
    if action.verb == EXPIRE:
        metadata = lake.tables.load(action.table).metadata
        there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        return not there & set(_snapshots(action)) and not set(metadata.refs) & set(_tags(action))
    return not _left(action, lake)


def apply(action: Action, lake: Writer) -> Outcome:
    return _expire(action, lake) if action.verb == EXPIRE else _remove(action, lake)


def _expire(action: Action, lake: Writer) -> Outcome:
    snapshots = set(_snapshots(action))

    def check(table: Table) -> None:
        needed = InUse(lake, besides=lake.stamp.operation).of(action.table, table)
        taken = [f"snapshot {s} is needed by {operation}" for s, operation in needed.items() if s in snapshots]
        if taken:
            raise StalePlan(f"the plan is stale: {'; '.join(taken)}", "Nothing was expired. Plan again.")

    change = Expiry(action.table, _uuid(action), _snapshots(action), _tags(action))
    if action.route == SPARK_SQL:
        lake.procedures.expire_snapshots(change, check)
    else:
        lake.sweep(action.table)
        lake.commits.expire(change, check)
    return Outcome(action.expects)


def _remove(action: Action, lake: Writer) -> Outcome:
    name, table = lake.tables.name(action.table), lake.tables.load(action.table)
    storage, listed = lake.storage(name.lake), {file.path: file for file in action.files.items}
    free = [listed[path] for path in still_unreachable(table, list(listed))]

    def progress(done: int, total: int) -> None:
        lake.progress(done, total, "files")

    if action.arguments["how"] == "quarantine":
        made_at = lake.clock()
        batch = Batch(
            id=f"{lake.stamp.operation}-{lake.stamp.action}",
            location=table.metadata.location,
            table=action.table,
            uuid=_uuid(action),
            operation=lake.stamp.operation,
            reason="expired",
            made_at=made_at,
            delete_after=made_at + lake.settings.quarantine.grace,
            files=tuple(QuarantinedFile(file.path, file.bytes, file.kind) for file in free),
        )
        moved = stash(storage, batch, progress)
        _check_all_left(action, moved.failed)
        return Outcome({"files_quarantined": moved.files, "bytes_quarantined": moved.bytes})
    removed = storage.delete_all([file.path for file in free], progress)
    _check_all_left(action, removed.failed)
    return Outcome({"files_removed": removed.files, "bytes_freed": removed.bytes})


def _check_all_left(action: Action, failed: tuple[tuple[str, str], ...]) -> None:
    if failed:
        raise StorageUnavailable(
            f"{action.table}: {len(failed)} of {action.files.count} files could not be removed, as {failed[0][0]}: "
            f"{failed[0][1]}",
            "The versions are gone and these files are not; resume the operation when that is mended.",
        )


def _left(action: Action, lake: Reader) -> list[str]:
    """Listed files that are still there although nothing leads to them."""
    name = lake.tables.name(action.table)
    sizes = lake.storage(name.lake).sizes([file.path for file in action.files.items])
    there = [path for path, size in sizes.items() if size is not None]
    return still_unreachable(lake.tables.load(name), there) if there else []


def _check_deletion_allowed(found: Expiring) -> None:
    if found.table.metadata.properties.get("gc.enabled", "true").lower() == "false":
        raise DeletionForbidden(
            f"{found.name}: gc.enabled=false forbids every deletion of its files",
            "Another table may share them. If none does, set gc.enabled to true first.",
        )


def _expire_action(found: Expiring, route: Route) -> Action:
    decisions, uuid, target = found.decisions, str(found.table.metadata.table_uuid), str(found.name)
    total, going = len(decisions.versions), len(decisions.expired)
    tags = f" and {len(decisions.tags_going)} tags" if decisions.tags_going else ""
    names = ", ".join(decisions.tags_going)
    return Action(
        verb=EXPIRE,
        table=target,
        says=f"expire {going} of {total} versions{tags}{f' ({names})' if names else ''}",
        arguments={
            "uuid": uuid,
            "snapshots": ",".join(str(snapshot) for snapshot in sorted(decisions.expired)),
            "tags": "\n".join(decisions.tags_going),
        },
        requires=(TableIs(target, uuid),),
        expects={
            "snapshots_total": total,
            "snapshots_kept": total - going,
            "snapshots_expired": going,
            "tags_expired": len(decisions.tags_going),
            "bytes_of_all_versions": found.unreachable.bytes_kept + found.files.bytes,
        },
        route=route.name,
        because=route.because,
    )


def _remove_action(lake: Reader, found: Expiring, route: Route) -> Action:
    uuid, target, files = str(found.table.metadata.table_uuid), str(found.name), found.files
    asked = lake.settings.quarantine.expired_files
    can_move = lake.storage(found.name.lake).renames
    quarantined = asked == "always" or (asked == "auto" and can_move)
    free = "files that nothing leads to then"
    return Action(
        verb=REMOVE,
        table=target,
        says=f"move {free} into quarantine" if quarantined else f"delete {free}",
        arguments={"uuid": uuid, "how": "quarantine" if quarantined else "delete"},
        requires=(TableIs(target, uuid),),
        files=files,
        estimate=Estimate(files=files.count, bytes=files.bytes),
        because=route.because and "Iceberg's expiry on Spark deletes what it sets free itself; this removes the rest",
    )


def _superseded_metadata(lake: Reader, table: Table, policy: RetentionPolicy) -> list[ReachableFile]:
    """Earlier metadata files that are neither among the newest nor young; whoever reads one now has a day to end."""
    cutoff = to_millis(lake.clock() - timedelta(days=max(policy.days, 1)))
    older = list(table.metadata.metadata_log)[: -policy.keep_last or None]
    return [ReachableFile(entry.metadata_file, "metadata") for entry in older if entry.timestamp_ms < cutoff]


def _sized(lake: Reader, name: TableName, files: list[ReachableFile]) -> FileList:
    """The files with the sizes that metadata does not tell looked up; what is not there is not listed."""
    unknown = [file.path for file in files if file.bytes is None]
    sizes = lake.storage(name.lake).sizes(unknown) if unknown else {}
    known = [(file, sizes.get(file.path) if file.bytes is None else file.bytes) for file in files]
    return FileList.of(PlannedFile(file.path, size, file.kind) for file, size in known if size is not None)


def _snapshots(action: Action) -> tuple[int, ...]:
    return tuple(int(snapshot) for snapshot in str(action.arguments["snapshots"]).split(",") if snapshot)


def _tags(action: Action) -> tuple[str, ...]:
    return tuple(tag for tag in str(action.arguments["tags"]).split("\n") if tag)


def _uuid(action: Action) -> str:
    return str(action.arguments["uuid"])
