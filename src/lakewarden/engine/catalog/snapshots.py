"""A table's snapshots, by its metadata alone: what they tell of themselves, and which was built on which."""

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
    """What a snapshot's summary tells, which its writer may have left out."""
    return snapshot.summary.additional_properties if snapshot is not None and snapshot.summary else {}


def stamped(table: Table, stamp: Stamp) -> int | None:
    """The last snapshot that an action published, or that part of it, whoever ran it.

    All snapshots are searched, since a branch may have been moved back since. A snapshot that Spark published bears
    the action's name as the id of its staged write; staged only, it is in the line of no branch but its own.
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
    """The operation that made a snapshot; empty if it is none of Lakewarden's."""
    notes = notes_of(snapshot)
    by_spark = _STAGED_BY.match(notes.get(PUBLISHED_WAP_ID) or notes.get(WAP_ID, ""))
    return notes.get("lakewarden.operation") or (by_spark[1] if by_spark else "")


def ancestors(table: Table, snapshot_id: int | None) -> Iterator[int]:
    """A snapshot and all that it was built on, as far back as the table still knows, over gaps that expiry left."""
    before = _before(table)
    while snapshot_id is not None and snapshot_id in before:
        yield snapshot_id
        snapshot_id = before[snapshot_id]


def lines_of(table: Table, heads: Iterable[int]) -> set[int]:
    """Some snapshots and all that they were built on; what several were built on is passed once."""
    before, found = _before(table), set[int]()
    for head in heads:
        at: int | None = head
        while at is not None and at in before and at not in found:
            found.add(at)
            at = before[at]
    return found


def replacements_since(table: Table, before: int | None) -> list[Snapshot]:
    """The `replace` snapshots on main since another one, newest first: rewrites of files that changed no row."""
    found = []
    for id in ancestors(table, table.metadata.current_snapshot_id):
        if id == before:
            break
        snapshot = table.snapshot_by_id(id)
        if snapshot is not None and snapshot.summary and snapshot.summary.operation.value == "replace":
            found.append(snapshot)
    return found


def named(table: Table) -> set[int]:
    """The snapshots that refs lead to, and all that these were built on."""
    return lines_of(table, (ref.snapshot_id for ref in table.metadata.refs.values()))


def _before(table: Table) -> Mapping[int, int | None]:
    """What each snapshot was built on that is still there."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots}
    over_gaps = lineage_of(table.metadata.properties)
    return {id: parent if parent in parents else over_gaps.get(id) for id, parent in parents.items()}
