"""Rewrites partitions of a former schema with the current one, without their source.

The rewrite kernel moves values to the field ids that the current schema reads, and stamps the rows with its hash. The
new files take the place of the former ones in one commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import stamped
from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.new_rows import Overwrite
from lakewarden.engine.files.written_files import layout_for
from lakewarden.engine.rewrite.driver import FileGroup
from lakewarden.errors import CatalogUnavailable, LakewardenError, StalePlan
from lakewarden.features.viewset.catalogue import partitions
from lakewarden.features.viewset.definition import HASH, IDENTITY, ViewSet
from lakewarden.features.viewset.writing import rewrite_empty
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.features.viewset.ways.incompatible_partitions import Partition
    from lakewarden.features.viewset.ways.options import Group
    from lakewarden.lifecycle.ground import Reader, Writer

REWRITE = "rewrite"
_MOST = 5_000  # partitions of one action
_TARGET_BYTES = 1 << 30
_MEMORY_BYTES = 512 << 20


def actions_for(view: ViewSet, group: Group, chosen: Sequence[Partition]) -> tuple[Action, ...]:
    return tuple(_action(view, group, chosen[start : start + _MOST]) for start in range(0, len(chosen), _MOST))


def holds(action: Action, lake: Reader, view: ViewSet) -> bool:
    there = partitions(lake, view)
    files = {row.file_path for row in there}
    empty = {row.identity_text for row in there if row.file_path is None}
    return not any(file.path in files for file in action.files.items) and not empty.intersection(action.texts("empty"))


def apply(action: Action, lake: Writer, view: ViewSet) -> Outcome:
    is_published = stamped(view.table, lake.stamp) is not None  # by a run that was killed after it
    rows = 0 if is_published else _rewrite(action, lake, view)
    reach("viewset.rewritten")
    empty = set(action.texts("empty"))
    rewrite_empty(lake, view, empty)
    return Outcome({"partitions_rewritten": len(action.files.groups()) + len(empty), "rows": rows})


def _action(view: ViewSet, group: Group, chosen: Sequence[Partition]) -> Action:
    target, uuid = str(view.table_name), str(view.table.metadata.table_uuid)
    files = FileList.of(
        PlannedFile(row.file_path, row.file_size, "data", number)
        for number, one in enumerate(chosen)
        for row in one.rows
        if row.file_path is not None
    )
    empty = tuple(row.identity_text for one in chosen for row in one.rows if row.file_path is None)
    new = f"; new columns are null: {', '.join(group.change.new)}" if group.change.new else ""
    whole = group.estimate("rewrite")
    return Action(
        verb=REWRITE,
        subject=target,
        lease=table_lease(uuid),
        says=f"rewrite {counted(len(chosen), 'partition')} of schema {group.schema_hash} with the current one{new}",
        arguments={
            "schema_hash": view.schema_hash,
            "moved": tuple(f"{id}:{stored}" for id, stored in sorted(group.change.moved.items())),
            **({"empty": empty} if empty else {}),
        },
        requires=(TableIs(target, uuid),),
        estimate=Estimate(
            files.count,
            files.bytes,
            sum(one.num_rows for one in chosen),
            round(whole.seconds * len(chosen) / len(group.partitions), 1),
        ),
        files=files,
    )


def _rewrite(action: Action, lake: Writer, view: ViewSet) -> int:
    """Rewrite and publish the files; returns how many rows they have."""
    groups = _groups(action, lake, view)
    if not groups:
        return 0
    table, moved = view.table, [pair.split(":") for pair in action.texts("moved")]
    layout = replace(
        layout_for(table, _TARGET_BYTES, "full", _MEMORY_BYTES),
        moved=tuple((int(id), int(stored)) for id, stored in moved),
        constants=((table.schema().find_field(HASH).field_id, view.schema_hash),),
    )
    rewriter = lake.rewriter(view.table_name.lake)
    folder = f"{staging_folder(table, lake.stamp)}/{secrets.token_hex(4)}"  # unique, even among runs of this operation
    result = rewriter.rewrite(
        table, groups, layout, folder, lambda done, all: lake.progress(done, all, "bytes rewritten")
    )
    added = tuple(replace(one, sequence=None) for group in result.groups for one in group.added)
    removed = {path: deletes for group in result.groups for path, deletes in group.inputs.items()}
    try:
        lake.commits.publish(
            Overwrite(str(view.table_name), str(table.metadata.table_uuid), added=added, removed=removed)
        )
    except CatalogUnavailable:
        raise  # the commit may have landed: a resumed run checks
    except LakewardenError:
        for group in result.groups:
            rewriter.discard(group)
        raise
    return sum(one.file.record_count for one in added)


def _groups(action: Action, lake: Reader, view: ViewSet) -> list[FileGroup]:
    """The files of each partition, as they are now."""
    live = lake.files.of(view.table, view.table.current_snapshot()).by_path
    changed = [f.path for f in action.files.items if f.path not in live or live[f.path].deletes]
    if changed:
        raise StalePlan(
            f"the plan is stale: {len(changed)} files of {action.subject} were removed or have deleted rows by now",
            "Nothing was changed. Plan again.",
        )
    return [
        FileGroup(number, tuple(_as_current(view, live[path]) for path in paths))
        for number, paths in action.files.groups().items()
    ]


def _as_current(view: ViewSet, file: LiveFile) -> LiveFile:
    """A file as its replacement is listed: in the partition of the current schema."""
    from pyiceberg.typedef import Record

    ids = {view.table.schema().find_field(name).field_id: name for name in IDENTITY}
    fields = view.table.metadata.specs()[file.partition[0]].fields
    values = [file.record[place] for place in range(len(fields))]
    place = next(place for place, field in enumerate(fields) if ids.get(field.source_id) == HASH)
    values[place] = view.schema_hash
    return replace(file, record=Record(*values))
