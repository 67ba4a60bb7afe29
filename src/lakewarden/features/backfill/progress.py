"""The status of a backfill: what its target knows, and what the journal knows of its last operation.

The one place where an operation's states become a backfill's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from lakewarden.display import Shown
from lakewarden.errors import Conflict, LakewardenError, TableNotFound
from lakewarden.features.backfill.pace import SECONDS
from lakewarden.features.backfill.planning import late_rows
from lakewarden.features.backfill.position import Whereabouts, branch_of, whereabouts
from lakewarden.features.backfill.registration import Backfill, registered_at
from lakewarden.lifecycle.journal import WAITS_FOR, Progress, Record, Step
from lakewarden.lifecycle.states import State

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader

_KINDS = ("backfill.run", "migration.apply")
_WRITTEN = (Progress.DONE, Progress.VERIFIED)
BackfillState = Literal["pending", "running", "paused", "completed", "failed"]
_STATES: dict[State, BackfillState] = {
    State.PLANNED: "pending",
    State.RUNNING: "running",
    State.VERIFYING: "running",
    State.PAUSED: "paused",
    State.FAILED: "failed",
    State.DONE: "completed",
    State.CANCELLED: "paused",
}


@dataclass(frozen=True)
class BackfillRow(Shown):
    """A backfill and how far it is."""

    backfill_id: str
    migration_version: str
    lake: str
    db_name: str
    status: BackfillState
    rows_processed: int
    batches_completed: int
    batches: int | None
    priority: int
    description: str


@dataclass(frozen=True)
class BackfillStatus(Shown):
    """A backfill in full."""

    backfill_id: str
    migration_version: str
    db_name: str
    status: BackfillState
    checkpoint: dict[str, Any]
    rows_processed: int
    started_at: datetime | None
    updated_at: datetime | None
    completed_at: datetime | None
    error_log: list[str]
    rate: float | None
    eta: datetime | None
    held_by: str | None
    operation: str | None
    late_rows: int | None
    notes: list[str] = field(default_factory=list)


def row_of(lake: Reader, backfill: Backfill) -> BackfillRow:
    known, record, state = _facts(lake, backfill)
    found = known.current or known.unknown
    at = found.position if found else None
    return BackfillRow(
        backfill_id=backfill.id,
        migration_version=backfill.files.version,
        lake=backfill.place.lake,
        db_name=backfill.place.name,
        status=state,
        rows_processed=at.rows if at else 0,
        batches_completed=at.batch if at else 0,
        batches=_batches(record, backfill),
        priority=backfill.files.meta.priority,
        description=backfill.files.meta.description or backfill.files.name,
    )


def status_of(lake: Reader, backfill: Backfill) -> BackfillStatus:
    known, record, state = _facts(lake, backfill)
    found = known.current or known.unknown
    at = found.position if found else None
    rate, eta = _pace(lake, record, backfill, state)
    late, about_late = late_rows(lake, backfill, known.current) if known.current else (None, "")
    return BackfillStatus(
        backfill_id=backfill.id,
        migration_version=backfill.files.version,
        db_name=backfill.place.name,
        status=state,
        checkpoint=_checkpoint(backfill, known),
        rows_processed=at.rows if at else 0,
        started_at=record.started_at if record else None,
        updated_at=found.at if found else registered_at(lake, backfill),
        completed_at=found.at if found and state == "completed" else None,
        error_log=_errors(record, backfill, state),
        rate=rate,
        eta=eta,
        held_by=lake.journal.held_by(record.id) if record else None,
        operation=record.id if record else None,
        late_rows=late,
        notes=[*_waits_for(record, state), *_notes(backfill, known), *([about_late] if about_late else [])],
    )


def _facts(lake: Reader, backfill: Backfill) -> tuple[Whereabouts, Record | None, BackfillState]:
    """What the target knows, the last operation, and the state. Once it is pending, no operation counts."""
    known, record = _known(lake, backfill), last_operation(lake, backfill)
    state = _state(lake, backfill, known, record)
    return known, None if state == "pending" else record, state


def last_operation(lake: Reader, backfill: Backfill) -> Record | None:
    """The newest operation that wrote batches of a backfill, or is to."""
    return lake.journal.last_begun(_KINDS, "backfill", backfill.id)


def _state(lake: Reader, backfill: Backfill, known: Whereabouts, record: Record | None) -> BackfillState:
    """The operation's state, paused if its process died; if it is over for this backfill or unknown, the table's."""
    at = known.current.position if known.current else None
    is_complete = at is not None and at.complete and known.lost is None
    is_empty = at is None and known.lost is None and known.unknown is None
    if record is not None and is_empty and _is_stopped_after_batches(record, backfill):
        return "pending"  # its rows were removed since
    if record is not None and not _is_over(record, backfill, is_complete):
        is_dead = _STATES[record.state] == "running" and lake.journal.held_by(record.id) is None
        return "paused" if is_dead else _STATES[record.state]
    return "completed" if is_complete else "pending" if at is None and known.unknown is None else "paused"


def _is_over(record: Record, backfill: Backfill, is_complete: bool) -> bool:
    """Whether an operation has ended, or does no more for this backfill: it may have others to write."""
    if record.state is State.FAILED:
        own = any(step.error for _, step in _own_steps(record, backfill))
        return not own and any(step.error for step in record.steps)
    is_written = all(step.progress in _WRITTEN for _, step in _own_steps(record, backfill))
    return record.state in (State.DONE, State.CANCELLED) or (is_written and is_complete)


def _is_stopped_after_batches(record: Record, backfill: Backfill) -> bool:
    is_stopped = record.state in (State.PAUSED, State.FAILED)
    return is_stopped and any(step.progress in _WRITTEN for _, step in _own_steps(record, backfill))


def refuse_running(lake: Reader, backfill: Backfill) -> None:
    """Raise if a process writes batches of a backfill at the moment."""
    if _facts(lake, backfill)[2] == "running":
        raise Conflict(f"backfill {backfill.id} is running", "Pause or cancel it first.")


def _known(lake: Reader, backfill: Backfill) -> Whereabouts:
    try:
        table: Table = lake.tables.load(backfill.target(lake))
    except TableNotFound:
        return Whereabouts(None, None)
    return whereabouts(table, backfill.id)


def _checkpoint(backfill: Backfill, known: Whereabouts) -> dict[str, Any]:
    import json

    found = known.current or known.unknown
    at = found.position if found else None
    columns = backfill.files.meta.checkpoint_columns
    values = json.loads(at.checkpoint) if at and at.checkpoint else [None] * len(columns)
    return {
        **backfill.files.meta.custom_fields,
        **dict(zip(columns, values, strict=False)),  # the columns may have been changed since
        "current_batch_size": at.size if at else backfill.files.meta.batch_size,
        "rows_processed": at.rows if at else 0,
        "batches_completed": at.batch if at else 0,
    }


def _own_steps(record: Record, backfill: Backfill) -> list[tuple[int, Step]]:
    """The batches of a backfill, and how many source rows each has."""
    actions = {action.id: action for action in record.plan.actions}
    own = [step for step in record.steps if actions[step.action].arguments.get("backfill") == backfill.id]
    return [(actions[step.action].number("rows"), step) for step in own]


def _batches(record: Record | None, backfill: Backfill) -> int | None:
    numbers = [
        action.number("batch")
        for action in (record.plan.actions if record else ())
        if action.arguments.get("backfill") == backfill.id
    ]
    return max(numbers, default=None)


def _pace(
    lake: Reader, record: Record | None, backfill: Backfill, state: BackfillState
) -> tuple[float | None, datetime | None]:
    """Rows per second while it wrote, and when it will be done if it does nothing else from now on."""
    if record is None:
        return None, None
    steps = _own_steps(record, backfill)
    done = [(rows, step.facts[SECONDS]) for rows, step in steps if step.progress in _WRITTEN and SECONDS in step.facts]
    left = sum(rows for rows, step in steps if step.progress not in _WRITTEN)
    rows, seconds = sum(rows for rows, _ in done), sum(float(seconds) for _, seconds in done)
    if not rows or not seconds:
        return None, None
    eta = lake.clock() + timedelta(seconds=left * seconds / rows) if state == "running" else None
    return round(rows / seconds, 1), eta


def _errors(record: Record | None, backfill: Backfill, state: BackfillState) -> list[str]:
    if record is None:
        return []
    own = [step.error["message"] for _, step in _own_steps(record, backfill) if step.error]
    return own or ([str(record.error["message"])] if record.error and state == "failed" else [])


def _waits_for(record: Record | None, state: BackfillState) -> list[str]:
    """Why a running operation waits at the moment."""
    if record is None or state != "running":
        return []
    return [f"waiting: {step.facts[WAITS_FOR]}" for step in record.steps if WAITS_FOR in step.facts]


def _notes(backfill: Backfill, known: Whereabouts) -> list[str]:
    notes = []
    if known.is_on_branch:
        notes.append(f"its batches are on branch {branch_of(backfill.id)} of the target, and not published yet")
    if known.unknown is not None:
        notes.append(
            "it is not known whether the target still has its last commit: look whether its rows are there, and say so "
            "with lakewarden backfill locate"
        )
    if known.lost is not None:
        notes.append(f"the target was rolled back behind batch {known.lost.position.batch}: run it with --again")
    return notes


def need(record: Record | None, backfill: Backfill) -> Record:
    if record is None:
        raise LakewardenError(
            f"no operation of backfill {backfill.id} in the journal",
            f"lakewarden backfill run --database {backfill.place.name} --version {backfill.files.version}",
        )
    return record
