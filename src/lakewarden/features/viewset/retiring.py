"""Plans and applies the retirement of partitions: they leave the current version in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import stamped
from lakewarden.engine.commit.new_rows import Overwrite
from lakewarden.features.viewset.catalogue import PartitionRow, partitions
from lakewarden.features.viewset.definition import ViewSet, of_table, view_set_of
from lakewarden.features.viewset.overlap import schema_changed
from lakewarden.features.viewset.writing import is_by, remove_empty, removed_empty
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader, Writer

RETIRE = "retire"
EMPTY_WITH_IT = "lakewarden.viewset.empty"
"""In a snapshot's summary: how many partitions without rows went with the files."""
_identity = attrgetter("identity")
_MOST = 50_000  # partitions of one action: a commit rewrites manifests of the whole table, so many are cheaper


@dataclass(frozen=True)
class Taken:
    """What left a view set."""

    rows: Sequence[PartitionRow]
    """Files."""
    empty: frozenset[str]
    """Partitions without rows, by identity."""

    @property
    def identities(self) -> set[str]:
        return {row.identity_text for row in self.rows} | self.empty


def actions_for(view: ViewSet, rows: Iterable[PartitionRow], by_schema: bool = False) -> tuple[Action, ...]:
    """Actions that retire partitions, given by all of their files.

    `by_schema`: they may have been chosen for their schema, so they stay if another one becomes current before that.
    """
    parts = [tuple(some) for _, some in groupby(sorted(rows, key=_identity), _identity)]
    chosen = [parts[start : start + _MOST] for start in range(0, len(parts), _MOST)]
    return tuple(_action(view, [row for part in some for row in part], by_schema) for some in chosen)


def holds(action: Action, lake: Reader) -> bool:
    return not _left(action, partitions(lake, view_set_of(lake, action.subject)))


def apply(action: Action, lake: Writer) -> Outcome:
    view = view_set_of(lake, action.subject)
    _refuse_other_schema(action, view, view.table)
    going = _left(action, partitions(lake, view))
    paths = [row.file_path for row in going if row.file_path is not None]
    empty = {row.identity_text for row in going if row.file_path is None}
    if paths and stamped(view.table, lake.stamp) is None:
        live = lake.files.of(view.table, view.table.current_snapshot()).by_path
        lake.commits.publish(
            Overwrite(
                str(view.table_name),
                str(view.table.metadata.table_uuid),
                removed={path: live[path].deletes_identity for path in paths},
                facts={EMPTY_WITH_IT: str(len(empty))} if empty else {},
                check=partial(_refuse_other_schema, action, view),
            )
        )
    reach("viewset.retired")
    # a partition that has rows may be listed as empty as well, after a purge that was cancelled: that must go with it
    remove_empty(lake, view, empty | _own(action, lake).identities)
    return done_already(action, lake)


def done_already(action: Action, lake: Writer) -> Outcome:
    """What the action's own commits took out, in this run or an earlier one. What others took out does not count."""
    taken = _own(action, lake)
    count = len(taken.identities)
    return Outcome(
        {
            "partitions_retired": count,
            "partitions_failed": action.number("partitions") - count,
            "storage_freed_bytes": sum(row.file_size for row in taken.rows),
        }
    )


def taken_by(lake: Reader, view: ViewSet, operation: str, action: str | None = None) -> Taken:
    """What an operation, or one of its actions, took out."""
    taken: list[PartitionRow] = []
    for snapshot in view.table.metadata.snapshots:
        before = view.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        if before is not None and is_by(snapshot, operation, action):
            after = {row.file_path for row in partitions(lake, view, at=snapshot)}
            taken += [row for row in partitions(lake, view, at=before) if row.file_path not in after]
    return Taken(taken, frozenset(removed_empty(lake, view, operation, action)))


def _own(action: Action, lake: Writer) -> Taken:
    return taken_by(lake, view_set_of(lake, action.subject), lake.stamp.operation, lake.stamp.action)


def _left(action: Action, there: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Of the planned partitions, those that are still there with no other files than the planned ones.

    If files were rewritten since, taking the others out would leave a part that looks whole to `materialize`.
    """
    planned = {*(file.path for file in action.files.items), *action.texts("empty")}
    parts = [list(some) for _, some in groupby(there, _identity)]  # they are in order
    return [row for some in parts if all(_key(one) in planned for one in some) for row in some]


def _key(row: PartitionRow) -> str:
    return row.file_path or row.identity_text


def _refuse_other_schema(action: Action, view: ViewSet, table: Table) -> None:
    now = of_table(view.table_name, table)
    if "schema_hash" in action.arguments and (now is None or _schema(now) != action.texts("schema_hash")):
        raise schema_changed(view)


def _schema(view: ViewSet) -> tuple[str, ...]:
    """The current hash, and the former ones that count as it."""
    return view.schema_hash, *sorted(view.kept)


def _action(view: ViewSet, rows: Sequence[PartitionRow], by_schema: bool) -> Action:
    target, uuid = str(view.table_name), str(view.table.metadata.table_uuid)
    files = FileList.of(PlannedFile(row.file_path, row.file_size, "data") for row in rows if row.file_path is not None)
    empty = tuple(row.identity_text for row in rows if row.file_path is None)
    count = len({row.identity for row in rows})
    return Action(
        verb=RETIRE,
        subject=target,
        lease=table_lease(uuid),
        says=f"retire {counted(count, 'partition')} with {counted(sum(row.num_rows for row in rows), 'row')}",
        arguments={
            "partitions": count,
            **({"empty": empty} if empty else {}),
            **({"schema_hash": _schema(view)} if by_schema else {}),
        },
        requires=(TableIs(target, uuid),),
        estimate=Estimate(files.count, files.bytes, sum(row.num_rows for row in rows)),
        files=files,
    )
