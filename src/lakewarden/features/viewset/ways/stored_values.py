"""Which files still have the values that `viewset heal` would move to other columns.

A rewrite by any engine writes the columns that the table has at that time. So files of a former schema may lack values
of columns that were dropped since, though their partition's hash names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.files.file_schemas import written_files
from lakewarden.features.shared.columns import promotes
from lakewarden.features.viewset.definition import columns_with_ids
from lakewarden.features.viewset.ways.transition import Transition

if TYPE_CHECKING:
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.features.viewset.ways.incompatible_partitions import Partition
    from lakewarden.lifecycle.ground import Reader

_LOST = Transition("files were rewritten since, when the table did not have all of their columns")


@dataclass(frozen=True)
class Movable:
    """Partitions of one former schema, and what becomes of their columns."""

    change: Transition
    partitions: Sequence[Partition]


def by_stored_values(lake: Reader, view: ViewSet, change: Transition, partitions: Sequence[Partition]) -> list[Movable]:
    """Partitions whose files have all values that are to be moved, apart from those whose files do not."""
    if not change.moved:
        return [Movable(change, partitions)]
    lost = _files_without(lake, view, change)
    whole = [one for one in partitions if not any(row.file_path in lost for row in one.rows)]
    rest = [one for one in partitions if any(row.file_path in lost for row in one.rows)]
    return [Movable(some, own) for some, own in ((change, whole), (_LOST, rest)) if own]


def _files_without(lake: Reader, view: ViewSet, change: Transition) -> set[str]:
    """The files without some of the values, or of which it is not known."""
    table, snapshot = view.table, view.table.current_snapshot()
    types = dict(columns_with_ids(table.schema()).values())
    lost = set()
    count = len(lake.files.of(table, snapshot).by_path)
    for file in written_files(table, snapshot, lake.storage(view.table_name.lake), footers=count):
        stored = dict(columns_with_ids(file.schema).values()) if file.schema is not None else {}
        for id, was in change.moved.items():
            if was not in stored or not (stored[was] == types[id] or promotes(stored[was], types[id])):
                lost.add(file.path)
    return lost
