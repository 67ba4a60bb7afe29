"""Plans and applies the retirement of partitions: they leave the current version in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import operation_of, stamped
from lakewarden.engine.commit.new_rows import Overwrite
from lakewarden.features.viewset.catalogue import PartitionRow, partitions
from lakewarden.features.viewset.definition import ViewSet, view_set_of
from lakewarden.features.viewset.writing import empty_before, remove_empty
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import LayoutIs, TableIs, table_lease
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.lifecycle.ground import Reader, Writer

RETIRE = "retire"
_identity = attrgetter("identity")
_MOST = 50_000  # partitions of one action: a commit rewrites manifests of the whole table, so many are cheaper


def actions_for(view: ViewSet, rows: Iterable[PartitionRow], by_schema: bool = False) -> tuple[Action, ...]:
    """Actions that retire partitions, given by all of their files.

    `by_schema`: they go because of their schema, so they stay if the view set's schema changes before that.
    """
    parts = [tuple(some) for _, some in groupby(sorted(rows, key=_identity), _identity)]
    chosen = [parts[start : start + _MOST] for start in range(0, len(parts), _MOST)]
    return tuple(_action(view, [row for part in some for row in part], by_schema) for some in chosen)


def holds(action: Action, lake: Reader) -> bool:
    there = partitions(lake, view_set_of(lake, action.subject))
    files = {row.file_path for row in there}
    empty = {row.identity_text for row in there if row.file_path is None}
    return not any(file.path in files for file in action.files.items) and not empty.intersection(action.texts("empty"))


def apply(action: Action, lake: Writer) -> Outcome:
    view = view_set_of(lake, action.subject)
    before, is_published = _before(view, lake)
    live = lake.files.of(view.table, before).by_path
    going = {file.path: live[file.path] for file in action.files.items if file.path in live}
    retired = {row.identity: row for row in partitions(lake, view, at=before) if row.file_path in going}
    if going and not is_published:
        removed = {path: file.deletes_identity for path, file in going.items()}
        lake.commits.publish(Overwrite(str(view.table_name), str(view.table.metadata.table_uuid), removed=removed))
    reach("viewset.retired")
    empty = set(action.texts("empty"))
    listed = {row.identity_text for row in partitions(lake, view) if row.file_path is None}
    # a partition that has rows may be listed as empty as well, after a purge that was cancelled: that must go with it
    remove_empty(lake, view, empty | {row.identity_text for row in retired.values()})
    count = len(retired) + len(empty & listed)
    return Outcome(
        {
            "partitions_retired": count,
            "partitions_failed": action.number("partitions") - count,
            "storage_freed_bytes": sum(file.bytes for file in going.values()),
        }
    )


def _before(view: ViewSet, lake: Writer) -> tuple[Snapshot | None, bool]:
    """The version that partitions are taken out of, and whether a run that was killed has done it."""
    published = stamped(view.table, lake.stamp)
    by_it = view.table.snapshot_by_id(published) if published is not None else None
    parent = by_it.parent_snapshot_id if by_it is not None else None
    before = view.table.snapshot_by_id(parent) if parent is not None else None
    return before or view.table.current_snapshot(), published is not None


def taken_by(lake: Reader, view: ViewSet, operation: str) -> set[str]:
    """What an operation took out: paths of files, and identities of partitions without rows."""
    taken = set(empty_before(lake, view, operation))
    for snapshot in view.table.metadata.snapshots:
        before = view.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        if operation_of(snapshot) == operation and before is not None:
            were, after = (lake.files.of(view.table, one).by_path.keys() for one in (before, snapshot))
            taken |= were - after
    return taken


def _action(view: ViewSet, rows: Sequence[PartitionRow], by_schema: bool) -> Action:
    target, metadata = str(view.table_name), view.table.metadata
    uuid = str(metadata.table_uuid)
    layout = LayoutIs(target, metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id)
    files = FileList.of(PlannedFile(row.file_path, row.file_size, "data") for row in rows if row.file_path is not None)
    empty = tuple(row.identity_text for row in rows if row.file_path is None)
    count = len({row.identity for row in rows})
    return Action(
        verb=RETIRE,
        subject=target,
        lease=table_lease(uuid),
        says=f"retire {counted(count, 'partition')} with {counted(sum(row.num_rows for row in rows), 'row')}",
        arguments={"partitions": count, **({"empty": empty} if empty else {})},
        requires=(TableIs(target, uuid), *((layout,) if by_schema else ())),
        estimate=Estimate(files.count, files.bytes, sum(row.num_rows for row in rows)),
        files=files,
    )
