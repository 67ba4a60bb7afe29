"""How far a backfill has come: its newest stamp in the snapshots of the target.

Each batch is one commit, whose summary says where the batch ended. So the table itself knows which rows it has,
whatever happens to the control database; and a commit is refused if the table is not where the batch begins.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import BACKFILL
from lakewarden.engine.catalog.snapshots import ancestors, notes_of
from lakewarden.errors import StalePlan
from lakewarden.quantities import from_millis

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Position:
    """The stamp of a batch."""

    run: int
    """Counts up with each `--again`."""
    batch: int
    """How many batches of this run are written."""
    checkpoint: str | None
    """The tuple at the end of the batch, as JSON; None if the source had no rows."""
    source: dict[str, str]
    """By table, the snapshot that the run reads."""
    since: str | None
    """The run reads only rows that the source got since this snapshot."""
    rows: int
    """How many source rows this run has read."""
    plan: str
    sql: str
    size: int
    """Rows of a batch at the moment."""
    complete: bool = False
    forgotten: bool = False
    """Whether a purge removed the checkpoint, which was an erased value."""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True)
class Found:
    """A position, and the commit that made it."""

    position: Position
    at: datetime
    snapshot: int | None


@dataclass(frozen=True)
class Whereabouts:
    """What a target knows of one backfill."""

    current: Found | None
    """On main."""
    lost: Found | None
    """A newer one that main was rolled back behind."""


def key(backfill: str) -> str:
    return f"{BACKFILL}{backfill}"


def whereabouts(table: Table, backfill: str) -> Whereabouts:
    """The newest stamp of a backfill on main, and one that main was rolled back behind."""
    own = set(ancestors(table, table.metadata.current_snapshot_id))
    stamped = [one for one in reversed(table.metadata.snapshots) if key(backfill) in notes_of(one)]
    current = next((_found(one, backfill) for one in stamped if one.snapshot_id in own), None)
    if current is None and key(backfill) in table.metadata.properties:  # its snapshot has expired
        kept = json.loads(table.metadata.properties[key(backfill)])
        current = Found(Position(**kept["position"]), from_millis(kept["at"]), None)
    newest = _found(stamped[0], backfill) if stamped else None
    if newest is None or newest.snapshot in own or (current is not None and newest.at <= current.at):
        return Whereabouts(current, None)
    return Whereabouts(current, newest)


def position(table: Table, backfill: str) -> Position | None:
    found = whereabouts(table, backfill).current
    return found.position if found else None


def unmoved(backfill: str, expected: Position | None) -> Callable[[Table], None]:
    """A check for commits: that the table still is where a batch begins."""

    def check(table: Table) -> None:
        if position(table, backfill) != expected:
            raise StalePlan(
                f"the plan is stale: another process has written batches of backfill {backfill}",
                "Nothing was written. lakewarden backfill status shows how far it is.",
            )

    return check


def _found(snapshot: Snapshot, backfill: str) -> Found:
    stamp = json.loads(notes_of(snapshot)[key(backfill)])
    return Found(Position(**stamp), from_millis(snapshot.timestamp_ms), snapshot.snapshot_id)
