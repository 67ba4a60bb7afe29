"""Which files are sorted already.

A file that was written in the table's own order says so in its manifest. Of what was sorted by columns that somebody
asked for, nothing does: a property of the table remembers these columns, and the snapshots that added the files.
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
    """Tells files that are in a sort order of the table, or where columns were asked for, sorted by these."""
    if by:
        remembered = _remembered(table, by)
        return lambda file: file.added_by in remembered
    return lambda file: (file.sort_order or 0) == order


def remember(action: Action, lake: Writer, before: int | None, by: str) -> None:
    """Write down what Spark has just sorted: the files of every `replace` snapshot since."""
    name = lake.tables.name(action.subject)
    table = lake.tables.load(name)
    made = {snapshot.snapshot_id for snapshot in replacements_since(table, before)}
    live = {file.added_by for file in lake.files.of(table, table.snapshot_by_name(MAIN)).data}
    known = (_remembered(table, by) | made) & live
    told = json.dumps({"by": _plain(by), "snapshots": sorted(known)})
    uuid, route = str(table.metadata.table_uuid), lake.tables.route(table, name).name
    lake.commits.publish(RefChange(action.subject, uuid, {}, properties={SORTED: told}, route=route))


def _remembered(table: Table, by: str) -> set[int]:
    try:
        told = json.loads(table.metadata.properties.get(SORTED, "{}"))
        return set(told["snapshots"]) if told.get("by") == _plain(by) else set()
    except (ValueError, KeyError, TypeError, AttributeError):  # somebody else's, or broken: then nothing is known
        return set()


def _plain(by: str) -> str:
    return " ".join(by.split())
