"""A table's snapshots by its metadata alone: their summaries, and which was built on which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import lineage_of
from lakewarden.lifecycle.basics import PART

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.lifecycle.basics import Stamp

MAIN = "main"
WAP_ID, PUBLISHED_WAP_ID = "wap.id", "published-wap-id"
_WHOSE = ("lakewarden.operation", "lakewarden.action", PART)
_STAGED_BY = re.compile(r"lw-(op-[0-9]{8}-[0-9]{6}-[0-9a-f]{6})-")


def notes_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """A snapshot's summary properties; empty if its writer left them out."""
    return snapshot.summary.additional_properties if snapshot is not None and snapshot.summary else {}


def stamped(table: Table, stamp: Stamp) -> int | None:
    """The last snapshot that an action, or a part of it, published, in this run or an earlier one.

    All snapshots are searched, because a branch may have been moved back. A snapshot published by Spark has the
    action's name as its `wap.id`; while it is only staged, it belongs to no branch but its own.
    """
    properties = stamp.properties()
    published = set(ancestors(table, table.metadata.current_snapshot_id))
    for snapshot in reversed(table.metadata.snapshots):
        notes = notes_of(snapshot)
        is_own = all(notes.get(key) == properties.get(key) for key in _WHOSE)
        is_picked = notes.get(PUBLISHED_WAP_ID) == stamp.name
        is_moved_to = notes.get(WAP_ID) == stamp.name and snapshot.snapshot_id in published
        if is_own or is_picked or is_moved_to:
            return snapshot.snapshot_id
    return None


def operation_of(snapshot: Snapshot) -> str:
    """The Lakewarden operation that created a snapshot; empty if none did."""
    notes = notes_of(snapshot)
    by_spark = _STAGED_BY.match(notes.get(PUBLISHED_WAP_ID) or notes.get(WAP_ID, ""))
    return notes.get("lakewarden.operation") or (by_spark[1] if by_spark else "")


def ancestors(table: Table, snapshot_id: int | None) -> Iterator[int]:
    """A snapshot and its ancestors, as far as the table knows them, across gaps left by expiry."""
    before = _before(table)
    while snapshot_id is not None and snapshot_id in before:
        yield snapshot_id
        snapshot_id = before[snapshot_id]


def lines_of(table: Table, heads: Iterable[int]) -> set[int]:
    """These snapshots and all their ancestors."""
    before, found = _before(table), set[int]()
    for head in heads:
        at: int | None = head
        while at is not None and at in before and at not in found:
            found.add(at)
            at = before[at]
    return found


def replacements_since(table: Table, before: int | None) -> list[Snapshot]:
    """The `replace` snapshots on main since another one, newest first: rewrites that changed no rows."""
    found = []
    for id in ancestors(table, table.metadata.current_snapshot_id):
        if id == before:
            break
        snapshot = table.snapshot_by_id(id)
        if snapshot is not None and snapshot.summary and snapshot.summary.operation.value == "replace":
            found.append(snapshot)
    return found


def named(table: Table) -> set[int]:
    """The snapshots that refs point to, and all their ancestors."""
    return lines_of(table, (ref.snapshot_id for ref in table.metadata.refs.values()))


def staged(table: Table) -> dict[int, str]:
    """Snapshots that were staged for review (write, audit, publish) and never published, with their `wap.id`."""
    published = {notes_of(snapshot).get(PUBLISHED_WAP_ID) for snapshot in table.metadata.snapshots}
    in_line = named(table)
    return {
        snapshot.snapshot_id: notes_of(snapshot)[WAP_ID]
        for snapshot in table.metadata.snapshots
        if notes_of(snapshot).get(WAP_ID, None) not in {None, *published} and snapshot.snapshot_id not in in_line
    }


def _before(table: Table) -> Mapping[int, int | None]:
    """The nearest remaining ancestor of each snapshot."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots}
    over_gaps = lineage_of(table.metadata.properties)
    return {id: parent if parent in parents else over_gaps.get(id) for id, parent in parents.items()}
