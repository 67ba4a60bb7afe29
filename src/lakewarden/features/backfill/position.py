"""How far a backfill has come: its newest stamp in the snapshots of the target.

Each batch is one commit, whose summary says where the batch ended. So the table itself knows which rows it has,
whatever happens to the control database; and a commit is refused if the table is not where the batch begins.

In branch mode the batches are commits of a branch, and one commit on main publishes them and removes the branch. So as
long as the branch exists, its stamps are the newest.

Each commit on main also sets its stamp as a table property, so that it survives any expiry, also that of other tools.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import BACKFILL
from lakewarden.engine.catalog.snapshots import MAIN, ancestors, lines_of, notes_of, operation_of
from lakewarden.errors import StalePlan
from lakewarden.quantities import from_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    total: int
    """How many it reads in all: with this, a position is found again if its checkpoint was an erased value."""
    plan: str
    sql: str
    size: int
    """Rows of a batch at the moment."""
    by: str = ""
    """The source and its checkpoint columns."""
    commits: int = 0
    """How many commits main has of the backfill since the last undo, with this one."""
    complete: bool = False
    forgotten: bool = False
    """Whether a purge removed the checkpoint, which was an erased value."""
    whole: bool = False
    """The commit has all batches of the run, which were on a branch before."""
    undone: bool = False
    """The commit removed all rows of the backfill: stamps before it no longer count."""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def read(text: str) -> Position:
        return Position(**json.loads(text))


@dataclass(frozen=True)
class Found:
    """A position, and the commit that made it."""

    position: Position
    at: datetime
    snapshot: int
    sequence: int | None


@dataclass(frozen=True)
class Whereabouts:
    """What a target knows of one backfill."""

    current: Found | None
    """On the backfill's branch, or on main."""
    lost: Found | None
    """A newer one that main was rolled back behind."""
    is_on_branch: bool = False
    """Whether the current one is on the backfill's branch."""


def key(backfill: str) -> str:
    return f"{BACKFILL}{backfill}"


def whereabouts(table: Table, backfill: str) -> Whereabouts:
    """The newest stamp of a backfill, and one that main was rolled back behind."""
    refs = table.metadata.refs
    heads = [refs[name].snapshot_id for name in (branch_of(backfill), MAIN) if name in refs]
    own = lines_of(table, heads)
    stamped = [one for one in reversed(table.metadata.snapshots) if key(backfill) in notes_of(one)]
    current = next(chain.from_iterable(stamps_on(table, ref, backfill) for ref in (branch_of(backfill), MAIN)), None)
    newest = _found(stamped[0], backfill) if stamped else None
    kept = _expired(table, backfill)
    if kept is not None and branch_of(backfill) not in refs:
        if _is_behind_main(table, kept):
            current = current if current is not None and current.position == kept.position else kept
        elif newest is None or kept.at > newest.at:
            newest = kept
    is_lost = newest is not None and newest.snapshot not in own and not newest.position.undone
    lost = newest if newest and is_lost and (current is None or newest.at > current.at) else None
    is_on_branch = branch_of(backfill) in refs
    return Whereabouts(current if current and not current.position.undone else None, lost, is_on_branch)


def _expired(table: Table, backfill: str) -> Found | None:
    """The stamp in the table's properties, if its snapshot has expired."""
    text = table.metadata.properties.get(key(backfill))
    if text is None:
        return None
    kept = json.loads(text)
    if table.snapshot_by_id(kept["snapshot"]) is not None:
        return None
    return Found(Position(**kept["position"]), from_millis(kept["at"]), kept["snapshot"], kept["sequence"])


def _is_behind_main(table: Table, expired: Found) -> bool:
    """Whether a snapshot that has expired was an ancestor of main: if main's line has a gap where it was."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    later: Snapshot | None = None
    for id in ancestors(table, table.metadata.current_snapshot_id):
        if _is_before(by_id[id], expired):
            return later is not None and later.parent_snapshot_id != id
        later = by_id[id]
    return later is not None


def _is_before(snapshot: Snapshot, expired: Found) -> bool:
    """By sequence number, unless there is none, or a purge made the snapshot: that keeps the time of an earlier one."""
    is_replacement = snapshot.parent_snapshot_id is None and operation_of(snapshot)
    if snapshot.sequence_number and expired.sequence and not is_replacement:
        return bool(snapshot.sequence_number < expired.sequence)
    return from_millis(snapshot.timestamp_ms) < expired.at


def branch_of(backfill: str) -> str:
    """The branch of a backfill in branch mode."""
    return f"backfill_{backfill}"


def stamps_on(table: Table, branch: str, backfill: str) -> Iterator[Found]:
    """The stamps of a backfill on a branch, newest first."""
    head = table.metadata.refs.get(branch)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    for id in ancestors(table, head.snapshot_id if head else None):
        if key(backfill) in notes_of(by_id[id]):
            yield _found(by_id[id], backfill)


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
    stamp = Position.read(notes_of(snapshot)[key(backfill)])
    return Found(stamp, from_millis(snapshot.timestamp_ms), snapshot.snapshot_id, snapshot.sequence_number)
