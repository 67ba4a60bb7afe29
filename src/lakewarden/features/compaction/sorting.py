"""Which files are sorted already.

The manifest records for each file whether it is in the table's sort order. It cannot record a sort by other columns, so
a table property holds those columns and the snapshots that added the sorted files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import MAIN, replacements_since
from lakewarden.engine.commit.refs import RefChange

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Writer

SORTED = "lakewarden.sorted"


def look_for_order(table: Table, order: int, by: str) -> Callable[[LiveFile], bool]:
    """A check whether a file is in a sort order of the table or, if columns are given, sorted by them."""
    if by:
        known = _sorted_snapshots(table, by)
        return lambda file: file.added_by in known
    return lambda file: (file.sort_order or 0) == order


def record_sorted(action: Action, lake: Writer, before: int | None, by: str) -> None:
    """Record what Spark has just sorted: the files of every `replace` snapshot since `before`."""
    name = lake.tables.name(action.subject)
    table = lake.tables.load(name)
    made = {snapshot.snapshot_id for snapshot in replacements_since(table, before)}
    live = {file.added_by for file in lake.files.of(table, table.snapshot_by_name(MAIN)).data}
    known = (_sorted_snapshots(table, by) | made) & live
    record = json.dumps({"by": _plain(by), "snapshots": sorted(known)})
    uuid, route = str(table.metadata.table_uuid), lake.tables.route(table, name).name
    lake.commits.publish(RefChange(action.subject, uuid, {}, properties={SORTED: record}, route=route))


def _sorted_snapshots(table: Table, by: str) -> set[int]:
    try:
        record = json.loads(table.metadata.properties.get(SORTED, "{}"))
        return set(record["snapshots"]) if record.get("by") == _plain(by) else set()
    except (ValueError, KeyError, TypeError, AttributeError):  # not written by Lakewarden, or damaged
        return set()


def _plain(by: str) -> str:
    return " ".join(by.split())
