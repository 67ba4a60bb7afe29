"""Snapshots that hold the same version of a table in other files: a compaction and its parent.

By the Iceberg specification a `replace` snapshot has the rows of its parent, so both count as one version. It holds all
of it, so that the parent can be removed, only if their schemas are equal too: a rewrite after a column was dropped no
longer has that column's values.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


def is_rewrite(snapshot: Snapshot) -> bool:
    """Whether a snapshot states that it changed files and no rows."""
    return snapshot.summary is not None and snapshot.summary.operation.value == "replace"


def represents(newer: Snapshot, older: Snapshot) -> bool:
    """Whether a snapshot holds the rows and columns of its parent."""
    is_built_on = newer.parent_snapshot_id == older.snapshot_id
    return is_rewrite(newer) and is_built_on and newer.schema_id is not None and newer.schema_id == older.schema_id


def stand_ins(metadata: TableMetadata, going: Collection[int]) -> dict[int, int]:
    """For each expiring snapshot, a remaining one that holds the same version, if there is one."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    found: dict[int, int] = {}
    unheld = set(going)
    for staying in [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in unheld]:
        newer, older = staying, by_id.get(staying.parent_snapshot_id or 0)
        while older is not None and older.snapshot_id in unheld and represents(newer, older):
            unheld.discard(older.snapshot_id)
            found[older.snapshot_id] = staying.snapshot_id
            newer, older = older, by_id.get(older.parent_snapshot_id or 0)
    return found
