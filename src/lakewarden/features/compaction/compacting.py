"""Plans and applies compaction: each action rewrites groups of files and publishes them in one commit.

If another writer removes inputs of a group in the meantime, the rest of the group is rewritten again with the deletes
that apply then. Appends by other writers do not conflict.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.engine.catalog.snapshots import MAIN, notes_of, replacements_since
from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.publish import check_identity
from lakewarden.engine.commit.rewritten_files import Rewrite
from lakewarden.engine.files.written_files import layout_for
from lakewarden.engine.rewrite.driver import FileGroup
from lakewarden.errors import CatalogUnavailable, LakewardenError, StalePlan
from lakewarden.features.compaction.binpack import Bin, Packing, together
from lakewarden.features.compaction.sorting import record_sorted
from lakewarden.features.compaction.survey import Survey, route_of
from lakewarden.features.erasure.hidden.held_files import held_files
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.file_sizes import DELTA_ENCODED
from lakewarden.features.shared.summary import number
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import SnapshotKept, TableIs, table_lease

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.files.live_files import SnapshotFiles
    from lakewarden.engine.rewrite.driver import RewriteResult
    from lakewarden.lifecycle.ground import Reader, Writer

COMPACT, SORT = "compact", "sort"
_ROUNDS = 5  # attempts to rewrite groups whose inputs other writers change
_SECONDS_PER_GB = 15  # a guess, for the estimate only


def actions_for(found: Survey, arguments: Mapping[str, Any] | None = None) -> tuple[Action, ...]:
    """One action per commit, or a single one if Spark must do the compaction."""
    bins = found.packing.bins
    if not bins or found.head is None:
        return ()
    sorts = bool((arguments or {}).get("sort_order"))
    parts = [bins] if found.route.needs_spark or sorts else list(together(bins, found.policy))
    return tuple(_action(found, part, place, len(parts), dict(arguments or {})) for place, part in enumerate(parts))


def holds(action: Action, lake: Reader) -> bool:
    """Whether none of the planned files is live any more, except those that must not be rewritten."""
    table = lake.tables.load(action.subject)
    files = lake.files.of(table, table.snapshot_by_name(MAIN))
    left = {file.path for file in action.files.items if file.path in files.by_path}
    return not left or left <= held_files(lake, table, files)


def apply(action: Action, lake: Writer) -> Outcome:
    with explaining(lake, lake.tables.name(action.subject)):
        return _through_spark(action, lake) if action.route == SPARK_SQL else _by_kernel(action, lake)


def _action(found: Survey, bins: tuple[Bin, ...], place: int, parts: int, arguments: dict[str, Any]) -> Action:
    target, metadata = str(found.name), found.table.metadata
    uuid, policy = str(metadata.table_uuid), found.policy
    files = [PlannedFile(f.path, f.bytes, "data", group) for group, bin in enumerate(bins) for f in bin.files]
    listed = FileList.of(files)
    masked, after = sum(bin.masked for bin in bins), Packing(bins).files_after(policy)
    sorts = bool(arguments.get("sort_order"))
    what = f"sort {listed.count} files" if sorts else f"compact {listed.count} files into about {after}"
    dropped = f", removing {masked:,} deleted rows" if masked else ""
    some = f" (part {place + 1} of {parts})" if parts > 1 else ""
    by_spark = sorts or found.route.needs_spark
    unsafe = any(file.lacks_nan_counts for bin in bins for file in bin.files)
    delta = f"; {DELTA_ENCODED}" if policy.delta_encoding and not by_spark else ""
    because = found.route.because or ("only Spark can sort" if sorts else "")
    return Action(
        verb=SORT if sorts else COMPACT,
        subject=target,
        lease=table_lease(uuid),
        says=f"{what}{dropped}{some}{delta}",
        arguments={
            "uuid": uuid,
            "part": place,
            "target_bytes": policy.target,
            "small_bytes": policy.limit_reached,
            "verify": policy.verify,
            "task_memory_mb": policy.task_memory_mb,
            "delta_encoding": policy.delta_encoding,
            **({"rewrite_all": True} if policy.rewrite_all or (by_spark and unsafe) else {}),
            **arguments,
        },
        requires=(TableIs(target, uuid), SnapshotKept(target, found.head or 0)),
        expects={},
        estimate=Estimate(
            files=after,
            bytes=listed.bytes,
            rows=sum(file.rows for bin in bins for file in bin.files) - masked,
            seconds=round(listed.bytes / (1 << 30) * _SECONDS_PER_GB, 1),
        ),
        files=listed,
        route=SPARK_SQL if sorts else found.route.name,
        because=because,
    )


def _by_kernel(action: Action, lake: Writer) -> Outcome:
    """Rewrite the groups on Spark, publish them without Spark, and repeat for groups that were sent back."""
    name = lake.tables.name(action.subject)
    waiting = action.files.groups()
    total: dict[str, int] = {}
    for _ in range(_ROUNDS):
        table = lake.tables.load(name)
        check_identity(table, action.subject, str(action.arguments["uuid"]))
        files = lake.files.of(table, table.snapshot_by_name(MAIN))
        groups = _live_groups(waiting, files, held_files(lake, table, files))
        if not groups:
            return Outcome(total)
        _check_route(action, lake, table, files)
        sent_back, done = _rewrite_and_publish(action, lake, table, groups)
        for fact, value in done.items():
            total[fact] = total.get(fact, 0) + value
        waiting = {number: paths for number, paths in waiting.items() if number in sent_back}
        if not waiting:
            return Outcome(total)
    raise StalePlan(
        f"other writers changed {len(waiting)} groups of {action.subject} each time they had been rewritten",
        "The other groups are compacted. Compact the rest when there are fewer writers.",
    )


def _rewrite_and_publish(
    action: Action, lake: Writer, table: Table, groups: list[FileGroup]
) -> tuple[tuple[int, ...], dict[str, int]]:
    asked = action.arguments
    rewriter = lake.rewriter(lake.tables.name(action.subject).lake)
    layout = layout_for(
        table,
        action.number("target_bytes") * 5 // 4,  # a group that grows a little is not split
        "full" if asked["verify"] == "full" else "counts",
        (action.number("task_memory_mb") or 512) << 20,
        bool(asked["delta_encoding"]),
    )
    folder = f"{staging_folder(table, lake.stamp)}/{secrets.token_hex(4)}"  # unique, even among runs of this operation
    result = rewriter.rewrite(
        table, groups, layout, folder, lambda done, all: lake.progress(done, all, "bytes rewritten")
    )
    reach("compaction.rewritten")
    change = Rewrite(action.subject, str(asked["uuid"]), result.groups, discard=rewriter.discard)
    try:
        published = lake.commits.publish(change)
    except CatalogUnavailable:
        raise  # the commit may have landed: a resumed run checks
    except LakewardenError:
        for group in result.groups:
            rewriter.discard(group)
        raise
    return published.sent_back, _facts(groups, result, published.sent_back, published.delete_files_removed)


def _facts(groups: list[FileGroup], result: RewriteResult, sent_back: tuple[int, ...], deletes: int) -> dict[str, int]:
    kept = [group for group in groups if group.number not in sent_back]
    made = [added.file for group in result.groups if group.number not in sent_back for added in group.added]
    before, after = sum(group.rows for group in kept), sum(file.record_count for file in made)
    return {
        "files_rewritten": sum(len(group.files) for group in kept),
        "files_written": len(made),
        "bytes_before": sum(group.bytes for group in kept),
        "bytes_after": sum(file.file_size_in_bytes for file in made),
        "deleted_rows_dropped": before - after,
        "delete_files_removed": deletes,
        "groups_sent_back": len(sent_back),
    }


def _live_groups(waiting: Mapping[int, list[str]], files: SnapshotFiles, held: Collection[str]) -> list[FileGroup]:
    """What is left of the planned groups, with the deletes that apply now and without files that must not change."""
    live = {path: file for path, file in files.by_path.items() if path not in held}
    groups = [FileGroup(n, tuple(live[path] for path in paths if path in live)) for n, paths in waiting.items()]
    return [group for group in groups if group.files]


def _check_route(action: Action, lake: Writer, table: Table, files: SnapshotFiles) -> None:
    usual = route_of_manifests(lake.tables.route(table, lake.tables.name(action.subject)), table)
    planned = {file.path for file in action.files.items}
    now = route_of(usual, table, files, [file for file in files.data if file.path in planned])
    if now.needs_spark:
        raise StalePlan(f"the plan is stale: {action.subject}: {now.because}", "Nothing was written. Plan again.")


def _check_none_held(action: Action, lake: Writer) -> None:
    """Refuse if rows were hidden since planning: Spark chooses the files itself and might rewrite theirs."""
    table, where = lake.tables.load(action.subject), str(action.arguments.get("where") or "")
    held = held_files(lake, table, lake.files.of(table, table.snapshot_by_name(MAIN)))
    if held and where:
        held &= lake.rows.files_of(lake.tables.resolve(action.subject), where)
    if held:
        raise StalePlan(
            f"the plan is stale: rows of {action.subject} were hidden since, and a withdrawal must restore them",
            "Nothing was written. Plan again.",
        )


def _through_spark(action: Action, lake: Writer) -> Outcome:
    """Call Iceberg's procedure, which chooses the files itself; the options cover what was planned."""
    asked = action.arguments
    sorts = action.verb == SORT
    _check_none_held(action, lake)
    options = {
        "target-file-size-bytes": str(asked["target_bytes"]),
        "min-file-size-bytes": str(asked["small_bytes"]),
        "max-file-size-bytes": str(action.number("target_bytes") * 2),
        "min-input-files": "2",
        "delete-file-threshold": "1",
        "remove-dangling-deletes": "true",
        "rewrite-all": "true" if sorts or asked.get("rewrite_all") else "false",
    }
    order = str(asked.get("sort_by") or "")
    where = str(asked.get("where") or "")
    strategy = "sort" if sorts else "binpack"
    before = lake.tables.load(action.subject).metadata.current_snapshot_id
    done = lake.procedures.rewrite_data_files(action.subject, options, strategy, order, where)
    if sorts and order:
        record_sorted(action, lake, before, order)
    return Outcome(_facts_of_spark(done, replacements_since(lake.tables.load(action.subject), before)))


def _facts_of_spark(done: Mapping[str, Any], made: Iterable[Snapshot]) -> dict[str, int]:
    """What the procedure counted, and rows and bytes from the summaries of its snapshots."""
    notes = [notes_of(snapshot) for snapshot in made]
    added, removed, size = (
        sum(number(each, key) or 0 for each in notes)
        for key in ("added-records", "deleted-records", "added-files-size")
    )
    return {
        "files_rewritten": int(done.get("rewritten_data_files_count", 0)),
        "files_written": int(done.get("added_data_files_count", 0)),
        "bytes_before": int(done.get("rewritten_bytes_count", 0)),
        "bytes_after": size,
        "deleted_rows_dropped": removed - added,
        "delete_files_removed": int(done.get("removed_delete_files_count", 0)),
        "groups_sent_back": 0,  # the procedure commits all groups or none
    }
