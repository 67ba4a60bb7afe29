"""Plans and applies the expiry of versions.

One action per table: one commit expires snapshots and tags, then the listed files that only those needed are removed
(`file_removal.py`). It is a single action because nothing would remove the files if a run stopped in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.catalog.snapshot_removal import iceberg_would_also_take
from lakewarden.engine.catalog.snapshots import operation_of
from lakewarden.engine.commit.expired_versions import Expiry
from lakewarden.engine.commit.shortened_log import ShortenedLog
from lakewarden.engine.files.reachable import ReachableFile
from lakewarden.engine.files.unreachable import Unreachable, is_own, unreachable_after
from lakewarden.errors import Conflict, StalePlan
from lakewarden.features.orphan.judgement import refuse_forbidden
from lakewarden.features.retention import file_removal
from lakewarden.features.retention.policy import (
    Decision,
    Decisions,
    RetentionPolicy,
    decide,
    policy_of,
    staged_as,
)
from lakewarden.lifecycle.action import Action, Estimate, Facts, Outcome, Verdict
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.in_use import snapshots_in_use
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.lifecycle.states import UNFINISHED
from lakewarden.quantities import to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.route import Route
    from lakewarden.engine.base.table_name import TableName
    from lakewarden.features.orphan.neighbours import Neighbours
    from lakewarden.lifecycle.ground import Reader, Writer

EXPIRE = "expire"


@dataclass(frozen=True)
class Expiring:
    """What the expiry of one table would remove."""

    name: TableName
    table: Table
    policy: RetentionPolicy
    decisions: Decisions
    unreachable: Unreachable
    files: FileList

    @property
    def may_delete(self) -> bool:
        """Whether gc.enabled allows deleting the table's files."""
        return self.table.metadata.properties.get("gc.enabled", "true").lower() != "false"


def look(
    lake: Reader,
    name: TableName,
    options: Mapping[str, Any],
    expire_tags: bool,
    in_use: InUse,
    with_files: bool = True,
    table: Table | None = None,
) -> Expiring:
    """Decide on every version of a table and, with `with_files`, find the files that become unreachable.

    `table` saves loading the table again.
    """
    table = table or lake.tables.load(name)
    policy = policy_of(lake.settings, name, table.metadata.properties, options)
    needed = in_use.of(str(name), table)
    decisions = decide(table, policy, lake.clock(), needed, expire_tags, _is_log_ours(lake, name, table))
    nothing = Unreachable((), 0, 0)
    if not with_files:
        return Expiring(name, table, policy, decisions, nothing, FileList())
    unreachable = unreachable_after(table, decisions.expired) if decisions.expired else nothing
    files = [*unreachable.files, *_superseded_metadata(lake, table, policy)]
    return Expiring(name, table, policy, decisions, unreachable, _sized(lake, name, files))


def _is_log_ours(lake: Reader, name: TableName, table: Table) -> bool:
    """Whether Lakewarden writes the snapshot log, and not the catalog or Spark."""
    return lake.settings.lake(name.lake).type != "rest" and not lake.tables.route(table, name).needs_spark


class InUse:
    """The snapshots that running operations need: those that they require, and those that they committed."""

    def __init__(self, lake: Reader, besides: str = "") -> None:
        self._required = snapshots_in_use(lake.journal, besides)
        self._unfinished = {
            record.id for record in lake.journal.list(states=sorted(UNFINISHED), limit=10**9) if record.id != besides
        }

    def of(self, name: str, table: Table) -> dict[int, str]:
        stamped = {snapshot.snapshot_id: operation_of(snapshot) for snapshot in table.metadata.snapshots}
        own = {snapshot: operation for snapshot, operation in stamped.items() if operation in self._unfinished}
        there = set(stamped)
        required = self._required.get(name, {}) | self._required.get(str(table.metadata.table_uuid), {})
        return own | {snapshot: operation for snapshot, operation in required.items() if snapshot in there}


def actions_for(lake: Reader, kind: str, found: Expiring, neighbours: Neighbours) -> Plan:
    """The plan that expires a table's old versions."""
    target, decisions = str(found.name), found.decisions
    warnings = [
        f"{target}: the keep period of tag {tag} is over; --expire-tags removes it" for tag in decisions.tags_over
    ]
    warnings += [
        f"{target}: version {version.snapshot_id} expires, which was {staged_as(version.wap_id)}"
        for version in decisions.versions
        if not version.kept and version.wap_id is not None
    ]
    if found.unreachable.elsewhere:
        warnings.append(f"{target}: {found.unreachable.elsewhere} files outside of its location are not removed")
    if found.unreachable.unreadable:
        warnings.append(
            f"{target}: {found.unreachable.unreadable} manifests or manifest lists of expiring versions are damaged: "
            "files that only they list are not removed now; lakewarden orphan find reports them afterwards"
        )
    verdicts = tuple(_verdict(target, version) for version in decisions.versions)
    least = 1 if decisions.expired or decisions.tags_going else _least_metadata(lake, found)
    if not decisions.expired and not decisions.tags_going and found.files.count < least:
        return Plan(kind, target, warnings=tuple(warnings), verdicts=verdicts)
    refuse_forbidden(found.name, found.table)
    neighbours.refuse_shared(found.name, found.table)
    route = lake.tables.route(found.table, found.name)
    if route.needs_spark and (decisions.expired or decisions.tags_going):
        _check_spark_takes_no_more(lake, found)
    return Plan(kind, target, (_action(lake, found, route),), tuple(warnings), verdicts=verdicts)


def _least_metadata(lake: Reader, found: Expiring) -> int:
    """How many superseded metadata files justify a commit, which itself supersedes one."""
    return 2 if _is_log_ours(lake, found.name, found.table) else 5


def holds(action: Action, lake: Reader) -> bool:
    """Whether the versions are expired and the files removed."""
    metadata = lake.tables.load(action.subject).metadata
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    if there & set(_snapshots(action)) or set(metadata.refs) & set(_tags(action)):
        return False
    return not file_removal.left(action, lake)


def apply(action: Action, lake: Writer) -> Outcome:
    """Expire the versions, then remove the files; a second run continues where the first stopped."""
    before = file_removal.sizes_of(action, lake) if action.arguments["how"] == file_removal.SPARK else {}
    _expire(action, lake)
    reach("expiry.committed")
    freed = file_removal.remove(action, lake)
    if before:
        freed = _freed_in_all(action, lake, before)
    return Outcome({**_versions(action, lake), **freed, _OF_ALL: action.expects[_OF_ALL]})


_OF_ALL = "bytes_of_all_versions"


def with_percent(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the percentage of bytes that was removed or moved to quarantine."""
    gone = result.get("bytes_freed", 0) + result.get("bytes_quarantined", 0)
    measured = "bytes_freed" in result or "bytes_quarantined" in result
    return {**result, "percent": round(100 * gone / result[_OF_ALL], 1)} if measured and result.get(_OF_ALL) else result


def _verdict(target: str, version: Decision) -> Verdict:
    verdict = "kept" if version.kept else "expired"
    reasons = (f"same rows as {version.same_as}",) if version.same_as else version.reasons
    if not version.kept and version.wap_id is not None:
        reasons = (staged_as(version.wap_id),)
    return Verdict(target, str(version.snapshot_id), version.committed_at, verdict, reasons)


def _expire(action: Action, lake: Writer) -> None:
    snapshots = set(_snapshots(action))

    def check(table: Table) -> None:
        refuse_forbidden(lake.tables.name(action.subject), table)
        needed = InUse(lake, besides=lake.stamp.operation).of(action.subject, table)
        taken = [f"snapshot {s} is needed by {operation}" for s, operation in needed.items() if s in snapshots]
        if taken:
            raise StalePlan(f"the plan is stale: {'; '.join(taken)}", "Nothing was expired. Plan again.")

    uuid = str(action.arguments["uuid"])
    metadata = tuple(file.path for file in action.files.items if file.kind == "metadata")
    change = Expiry(action.subject, uuid, _snapshots(action), _tags(action), metadata, check)
    if action.route != SPARK_SQL or change.snapshots or change.tags:
        lake.commits.publish(change)
    if metadata:
        lake.commits.publish(ShortenedLog(action.subject, uuid, metadata))


def _freed_in_all(action: Action, lake: Reader, before: Mapping[str, int]) -> Facts:
    """What was deleted since, by Spark or by us."""
    after = file_removal.sizes_of(action, lake)
    gone = [size for path, size in before.items() if path not in after]
    return {"files_removed": len(gone), "bytes_freed": sum(gone)}


def _versions(action: Action, lake: Reader) -> Facts:
    """Counts of versions, read from the table: other writers may have added some."""
    metadata = lake.tables.load(action.subject).metadata
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    gone = len(set(_snapshots(action)) - there)
    return {
        "snapshots_total": len(there) + gone,
        "snapshots_kept": len(there),
        "snapshots_expired": gone,
        "tags_expired": len(set(_tags(action)) - set(metadata.refs)),
    }


def _check_spark_takes_no_more(lake: Reader, found: Expiring) -> None:
    """Refuse if Iceberg's expiry would remove more than planned: files elsewhere, or what settings of refs expire."""
    decisions = found.decisions
    if found.unreachable.elsewhere:
        raise Conflict(
            f"{found.name}: Iceberg's expiry on Spark would also delete {found.unreachable.elsewhere} files outside "
            "of its location",
            "Another table may own them, and format v3 can only be expired on Spark. Keep these versions, or tag them.",
        )
    more = iceberg_would_also_take(
        found.table.metadata, decisions.expired, decisions.tags_going, to_millis(lake.clock())
    )
    if more:
        raise Conflict(
            f"{found.name}: Iceberg's expiry on Spark would also remove {', '.join(more)}",
            "Format v3 can only be expired on Spark. Remove ended tags with --expire-tags, or that ref's own settings.",
        )


def _action(lake: Reader, found: Expiring, route: Route) -> Action:
    decisions, uuid, target = found.decisions, str(found.table.metadata.table_uuid), str(found.name)
    total, going, files = len(decisions.versions), len(decisions.expired), found.files
    commits = bool(decisions.expired or decisions.tags_going)
    location, refs = found.table.metadata.location, found.table.metadata.refs
    how = file_removal.way_out(lake, found.name.lake, location, route.needs_spark and commits)
    return Action(
        verb=EXPIRE,
        subject=target,
        lease=table_lease(uuid),
        says=_says(decisions, how, commits),
        arguments={
            "uuid": uuid,
            "snapshots": tuple(str(snapshot) for snapshot in sorted(decisions.expired)),
            "tags": tuple(decisions.tags_going),
            "tags_at": tuple(str(refs[tag].snapshot_id) for tag in decisions.tags_going),
            "how": how,
        },
        requires=(TableIs(target, uuid),),
        expects={
            "snapshots_total": total,
            "snapshots_kept": total - going,
            "snapshots_expired": going,
            "tags_expired": len(decisions.tags_going),
            _OF_ALL: found.unreachable.bytes_kept + files.bytes,
        },
        files=files,
        estimate=Estimate(files=files.count, bytes=files.bytes),
        route=route.name,
        because=route.because,
    )


def _says(decisions: Decisions, how: file_removal.How, commits: bool) -> str:
    remove = "move {} to quarantine" if how == file_removal.QUARANTINE else "delete {}"
    if not commits:
        return remove.format("superseded metadata")
    tags = decisions.tags_going
    also = f" and {len(tags)} {'tag' if len(tags) == 1 else 'tags'} ({', '.join(tags)})" if tags else ""
    expired = f"expire {len(decisions.expired)} of {len(decisions.versions)} versions{also}"
    return f"{expired}; {remove.format('files that only they need')}"


def _superseded_metadata(lake: Reader, table: Table, policy: RetentionPolicy) -> list[ReachableFile]:
    """Metadata files that were superseded before the retention period, which is at least a day for running reads.

    No minimum number is kept: then every commit, including our own, would push out another one.
    """
    cutoff = to_millis(lake.clock() - timedelta(days=max(policy.days, 1)))
    log = table.metadata.metadata_log
    superseded_at = [*(entry.timestamp_ms for entry in log[1:]), table.metadata.last_updated_ms]
    old = [entry.metadata_file for entry, at in zip(log, superseded_at, strict=False) if at < cutoff]
    return [ReachableFile(path, "metadata") for path in old if is_own(table, path)]


def _sized(lake: Reader, name: TableName, files: list[ReachableFile]) -> FileList:
    """The files with their sizes, looked up if metadata does not have them; missing files are left out."""
    unknown = [file.path for file in files if file.bytes is None]
    sizes = lake.storage(name.lake).sizes(unknown) if unknown else {}
    known = [(file, sizes.get(file.path) if file.bytes is None else file.bytes) for file in files]
    return FileList.of(PlannedFile(file.path, size, file.kind) for file, size in known if size is not None)


def _snapshots(action: Action) -> tuple[int, ...]:
    return tuple(int(snapshot) for snapshot in action.texts("snapshots"))


def _tags(action: Action) -> dict[str, int]:
    """The tags to remove, and their snapshots at planning."""
    return {tag: int(at) for tag, at in zip(action.texts("tags"), action.texts("tags_at"), strict=True)}
