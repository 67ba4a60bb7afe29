"""How far a backfill has come: its newest stamp in the snapshots of the target.

Each batch is one commit, whose summary says where the batch ended. So the table itself knows which rows it has,
whatever happens to the control database; and a commit is refused if the table is not where the batch begins.

In branch mode the batches are commits of a branch, and one commit on main publishes them and removes the branch. So as
long as the branch exists, its stamps are the newest.

Each commit on main also sets its stamp as a table property, so that it survives any expiry, also that of other tools.
Whether main still descends from it is decided in `engine/catalog/positions.py`. Where nothing says so any more, the
position is unknown, and people decide (`backfill locate`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.positions import Kept, Stamped, standing
from lakewarden.engine.catalog.snapshot_removal import BACKFILL
from lakewarden.engine.catalog.snapshots import MAIN, ancestors, lines_of, notes_of
from lakewarden.errors import Conflict, StalePlan
from lakewarden.quantities import from_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table


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
    began: str = ""
    """When its first run was planned; requests to erase that hid rows since may have been withdrawn."""
    shown: str = ""
    """Withdrawn requests whose rows count as new in this run."""
    settled: str = ""
    """The same in earlier runs, and requests that were open between two runs only."""
    aside: bool = False
    """Whether the run has put rows aside, which its count of rows may lack: a purge may take the record of them."""

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
    unknown: Found | None = None
    """The last one on main, if it is not known whether main still has it."""


def key(backfill: str) -> str:
    return f"{BACKFILL}{backfill}"


def whereabouts(table: Table, backfill: str) -> Whereabouts:
    """The newest stamp of a backfill, and one that main was rolled back behind."""
    kept = Kept.of(table, key(backfill))
    newest = _newest(table, backfill, kept.last if kept else None)
    staged = next(stamps_on(table, branch_of(backfill), backfill), None)
    refs = table.metadata.refs
    if staged is not None:
        own = lines_of(table, (refs[name].snapshot_id for name in (branch_of(backfill), MAIN) if name in refs))
        is_newer = newest is not None and newest.snapshot not in own and newest.at > staged.at
        return Whereabouts(staged, newest if is_newer and newest and not newest.position.undone else None, True)
    found = standing(table, key(backfill))
    if not found.is_known and kept is None:
        raise _damaged(table, backfill)
    if not found.is_known:
        return Whereabouts(None, None, branch_of(backfill) in refs, _found(kept.last) if kept else None)
    last = _found(found.last) if found.last else None
    is_lost = newest is not None and (last is None or (newest.at > last.at and newest.position != last.position))
    lost = newest if newest is not None and is_lost and not newest.position.undone else None
    return Whereabouts(last if last and not last.position.undone else None, lost, branch_of(backfill) in refs)


def _newest(table: Table, backfill: str, kept: Stamped | None) -> Found | None:
    """The newest stamp that is known at all, whether or not it is in the line of main."""
    stamped = (one for one in reversed(table.metadata.snapshots) if key(backfill) in notes_of(one))
    last = next((Stamped.of(one, notes_of(one)[key(backfill)]) for one in stamped), None)
    if kept is not None and (last is None or kept.at > last.at):
        last = kept
    return _found(last) if last else None


def branch_of(backfill: str) -> str:
    """The branch of a backfill in branch mode."""
    return f"backfill_{backfill}"


def stamps_on(table: Table, branch: str, backfill: str) -> Iterator[Found]:
    """The stamps of a backfill on a branch, newest first."""
    head = table.metadata.refs.get(branch)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    for id in ancestors(table, head.snapshot_id if head else None):
        if key(backfill) in notes_of(by_id[id]):
            yield _found(Stamped.of(by_id[id], notes_of(by_id[id])[key(backfill)]))


def position(table: Table, backfill: str) -> Position | None:
    """Where a backfill is; refused if that is not known."""
    known = whereabouts(table, backfill)
    refuse_unknown(table, backfill, known)
    return known.current.position if known.current else None


def is_undone(table: Table, backfill: str) -> bool:
    """Whether the last commit on main was an undo."""
    found = standing(table, key(backfill)).last
    return found is not None and _found(found).position.undone


def refuse_unknown(table: Table, backfill: str, known: Whereabouts) -> None:
    """Raise if it is not known whether main still has the last commit of a backfill."""
    if known.unknown is not None:
        at = known.unknown.position
        last = "the undo" if at.undone else f"batch {at.batch}"
        raise Conflict(
            f"it is not known whether {'.'.join(table.name())} still has {last} of backfill {backfill}: the commits "
            "since have expired, and so have the metadata files that would show whether others rolled it back",
            "Nothing was written. Look whether its rows are there, and say so: "
            "lakewarden backfill locate --rows there (or gone)",
        )


def _damaged(table: Table, backfill: str) -> Conflict:
    name = ".".join(table.name())
    return Conflict(
        f"the property {key(backfill)} of {name} cannot be read, so which batches of the backfill it has is not known",
        "Others have changed it. Set it again to its text in an older metadata file. Only if the table has no rows of "
        "the backfill, remove it with ALTER TABLE … UNSET TBLPROPERTIES.",
    )


def unmoved(backfill: str, expected: Position | None) -> Callable[[Table], None]:
    """A check for commits: that the table still is where a batch begins."""

    def check(table: Table) -> None:
        if position(table, backfill) != expected:
            raise StalePlan(
                f"the plan is stale: another process has written batches of backfill {backfill}",
                "Nothing was written. lakewarden backfill status shows how far it is.",
            )

    return check


def _found(last: Stamped) -> Found:
    return Found(Position.read(last.stamp), from_millis(last.at), last.snapshot, last.sequence)
