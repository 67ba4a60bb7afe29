"""The journal of operations in the control database.

`lifecycle/journal.py` defines the transitions; here they are atomic: an operation's row is locked, read and changed in
one transaction. An operation and its files are recorded together. The queries are at the end, each with a docstring.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    ScalarSelect,
    Select,
    Update,
    case,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from lakewarden.errors import AlreadyExists
from lakewarden.lifecycle.action import Finding
from lakewarden.lifecycle.journal import Progress, Record, Step, advanced, not_found
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, pack_files, unpack_files
from lakewarden.lifecycle.processes import has_ended, shown
from lakewarden.lifecycle.states import State, Stop
from lakewarden.state.database import Database
from lakewarden.state.tables import action_files, leases, operations, steps


class SqlJournal:
    """The journal, shared between processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: Record) -> None:
        # compressed before the transaction, which blocks other writers
        packed = {action.id: pack_files(action.files) for action in record.plan.actions if action.files.items}
        with self._database.begin() as connection:
            try:
                connection.execute(insert(operations), _operation_row(record))
            except IntegrityError:
                raise AlreadyExists(f"operation {record.id} is in the journal already") from None
            if record.steps:
                connection.execute(
                    insert(steps), [{"operation": record.id, **_step_row(step)} for step in record.steps]
                )
            for action, content in packed.items():
                connection.execute(insert(action_files), {"operation": record.id, "action": action, "packed": content})

    def get(self, id: str) -> Record:
        with self._database.connect() as connection:
            return _one(connection, _by_id(id)) or _one(connection, _newest_of_plan(id)) or _missing(id)

    def list(
        self, *, states: Sequence[State] = (), kind: str = "", subjects: Collection[str] = (), limit: int = 50
    ) -> list[Record]:
        with self._database.connect() as connection:
            return _all(connection, _newest(states, kind, subjects, limit))

    def failed_requiring(self, requirement: str) -> Sequence[Record]:
        with self._database.connect() as connection:
            return _all(connection, _failed_requiring(requirement))

    def last_begun(self, kinds: Sequence[str], argument: str, value: str) -> Record | None:
        with self._database.connect() as connection:
            return _one(connection, _last_begun(kinds, argument, value))

    def planned(self, plan_id: str) -> Record | None:
        with self._database.connect() as connection:
            return _one(connection, _waiting_with_plan(plan_id))

    def move(self, id: str, state: State, at: datetime, **facts: Any) -> Record:
        with self._database.begin() as connection:
            connection.execute(_lock(id))
            record = advanced(_one(connection, _by_id(id)) or _missing(id), state, at, facts)
            connection.execute(_change_operation(record))
            return record

    def step(self, id: str, step: Step) -> None:
        with self._database.begin() as connection:
            if connection.execute(_lock(id)).first() is None:
                raise not_found(id)
            connection.execute(_change_step(id, step))

    def verified(self, id: str, steps: Collection[Step], at: datetime) -> None:
        with self._database.begin() as connection:
            if connection.execute(_lock(id)).first() is None:
                raise not_found(id)
            connection.execute(_mark_verified(id, [step.position for step in steps], at))

    def stop_requested(self, id: str) -> Stop | None:
        with self._database.connect() as connection:
            found = connection.execute(_stop_requested(id)).first()
        if found is None:
            raise not_found(id)
        return Stop(found.stop_requested) if found.stop_requested else None

    def held_by(self, id: str) -> str | None:
        with self._database.connect() as connection:
            found: str | None = connection.scalar(_holder(id, self._database.now(connection)))
            return None if found is None or has_ended(found) else shown(found)

    def files(self, id: str, action: str) -> FileList:
        with self._database.connect() as connection:
            found = connection.execute(_files(id, action)).first()
        if found is None:
            raise not_found(id)
        return FileList() if found.packed is None else _unpacked(found.packed)

    def last_done(self, kinds: Sequence[str]) -> dict[str, datetime]:
        with self._database.connect() as connection:
            return {row.subject: row.at for row in connection.execute(_last_verified(kinds))}

    def request_stop(self, id: str, stop: Stop) -> None:
        with self._database.begin() as connection:
            if connection.execute(_mark_to_stop(id, stop)).rowcount == 0:
                raise not_found(id)


def _missing(id: str) -> Record:
    raise not_found(id)


def _one(connection: Connection, selected: Select[int]) -> Record | None:
    found = _all(connection, selected)
    return found[0] if found else None


def _all(connection: Connection, selected: Select[int]) -> list[Record]:
    """The records of the selected operations, each with its steps."""
    numbers = selected.scalar_subquery()
    found = connection.execute(_operations(numbers)).mappings().all()
    of_operation = {
        id: tuple(_step(row) for row in rows)
        for id, rows in groupby(
            connection.execute(_steps(numbers)).mappings() if found else (), lambda row: str(row["operation"])
        )
    }
    return [_record(row, of_operation.get(row["id"], ())) for row in found]


def _record(row: RowMapping, steps: tuple[Step, ...]) -> Record:
    values = {field.name: row[field.name] for field in fields(Record) if field.name in row}
    values |= {
        "state": State(row["state"]),
        "stop_requested": Stop(row["stop_requested"]) if row["stop_requested"] else None,
        "plan": _plan(row),
        "findings": tuple(Finding(**finding) for finding in row["findings"]),
        "steps": steps,
    }
    return Record(**values)


def _plan(row: RowMapping) -> Plan:
    """The stored plan; one in another version's format is empty, so that it can be listed and cancelled."""
    try:
        return Plan.from_json(row["plan"])
    except ValueError:
        unreadable = "Its plan cannot be read: another version of Lakewarden wrote it."
        return Plan(row["kind"], row["target"], warnings=(unreadable,))


def _unpacked(packed: bytes) -> FileList:
    """The stored files; an unreadable list is empty, and so never equal to the planned one."""
    try:
        return unpack_files(packed)
    except (ValueError, KeyError, TypeError, zlib.error):
        return FileList()


def _step(row: RowMapping) -> Step:
    values = {field.name: row[field.name] for field in fields(Step)}
    return Step(**{**values, "progress": Progress(row["progress"])})


def _operation_row(record: Record) -> dict[str, Any]:
    fixed = ("id", "kind", "target", "actor", "created_at", "request")
    return {
        **{name: getattr(record, name) for name in fixed},
        "plan_id": record.plan.id,
        "plan": record.plan.to_json(),
        **_changing(record),
    }


def _changing(record: Record) -> dict[str, Any]:
    """The part of an operation's row that transitions change."""
    return {
        "state": str(record.state),
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "findings": [asdict(finding) for finding in record.findings],
        "error": None if record.error is None else dict(record.error),
        "result": None if record.result is None else dict(record.result),
        "stop_requested": record.stop_requested and str(record.stop_requested),
        "applied_by": record.applied_by,
    }


def _step_row(step: Step) -> dict[str, Any]:
    return {
        "position": step.position,
        "action": step.action,
        "subject": step.subject,
        "says": step.says,
        "progress": str(step.progress),
        "facts": dict(step.facts),
        "error": None if step.error is None else dict(step.error),
        "at": step.at,
    }


# --- queries ---------------------------------------------------------------------------------------

_NEWEST_FIRST = (operations.c.created_at.desc(), operations.c.number.desc())


def _by_id(id: str) -> Select[int]:
    """The operation with this id."""
    return select(operations.c.number).where(operations.c.id == id)


def _newest_of_plan(plan_id: str) -> Select[int]:
    """The newest operation with this plan, in any state."""
    return select(operations.c.number).where(operations.c.plan_id == plan_id).order_by(*_NEWEST_FIRST).limit(1)


def _waiting_with_plan(plan_id: str) -> Select[int]:
    """The newest operation with this plan that was not applied yet."""
    return _newest_of_plan(plan_id).where(operations.c.state == State.PLANNED)


def _newest(states: Sequence[State], kind: str, subjects: Collection[str], limit: int) -> Select[int]:
    """The newest operations in any of these states, of this kind, with a step on any of these subjects."""
    query = select(operations.c.number).order_by(*_NEWEST_FIRST).limit(limit)
    if states:
        query = query.where(operations.c.state.in_([str(state) for state in states]))
    if kind:
        query = query.where(operations.c.kind == kind)
    if subjects:
        query = query.where(operations.c.id.in_(select(steps.c.operation).where(steps.c.subject.in_(subjects))))
    return query


def _failed_requiring(requirement: str) -> Select[int]:
    """The failed operations whose plans have this requirement, if nothing that was begun later took their place.

    One pass ranks all operations of a kind, target and subject: looking for later ones of each took minutes.
    """
    same = (operations.c.kind, operations.c.target, steps.c.subject)
    place = func.dense_rank().over(partition_by=same, order_by=_NEWEST_FIRST).label("place")
    begun = select(operations.c.number, place).join(steps, steps.c.operation == operations.c.id)
    ranked = begun.where(operations.c.state != str(State.PLANNED)).subquery()
    replaced = select(ranked.c.number).where(ranked.c.place > 1).distinct().subquery()
    failed = select(operations.c.number).outerjoin(replaced, replaced.c.number == operations.c.number)
    return failed.where(
        operations.c.state == str(State.FAILED), _plan_has("kind", requirement), replaced.c.number.is_(None)
    )


def _last_begun(kinds: Sequence[str], argument: str, value: str) -> Select[int]:
    """The newest operation of these kinds, not only planned, with an action that has this argument."""
    query = select(operations.c.number).order_by(*_NEWEST_FIRST).limit(1)
    is_begun = operations.c.state != str(State.PLANNED)
    return query.where(operations.c.kind.in_(kinds), is_begun, _plan_has(argument, value))


def _plan_has(key: str, value: str) -> ColumnElement[bool]:
    """Whether a plan's document has a key with this text. Found by the database, which need not send all plans.

    Not by LIKE: on SQLite, that is blind to letter case.
    """
    text = f"{json.dumps(key)}:{json.dumps(value, ensure_ascii=False)}"
    return func.replace(operations.c.plan, text, "") != operations.c.plan


def _holder(id: str, now: datetime) -> Select[Any]:
    """The holder of an operation's lease."""
    return select(leases.c.holder).where(leases.c.key == f"operation:{id}", leases.c.expires_at > now)


def _stop_requested(id: str) -> Select[Any]:
    """What this operation was asked to do."""
    return select(operations.c.stop_requested).where(operations.c.id == id)


def _files(id: str, action: str) -> Select[Any]:
    """The files of one action: a row with null if the operation exists and has none for it."""
    of_action = (action_files.c.operation == operations.c.id) & (action_files.c.action == action)
    return (
        select(action_files.c.packed)
        .select_from(operations.outerjoin(action_files, of_action))
        .where(operations.c.id == id)
    )


def _last_verified(kinds: Sequence[str]) -> Select[Any]:
    """For each subject, when a step of an operation of these kinds was last verified."""
    return (
        select(steps.c.subject, func.max(steps.c.at).label("at"))
        .join(operations, operations.c.id == steps.c.operation)
        .where(operations.c.kind.in_(kinds), steps.c.progress == str(Progress.VERIFIED))
        .group_by(steps.c.subject)
    )


def _operations(numbers: ScalarSelect[int]) -> Select[Any]:
    """The rows of these operations, newest first."""
    return select(operations).where(operations.c.number.in_(numbers)).order_by(*_NEWEST_FIRST)


def _steps(numbers: ScalarSelect[int]) -> Select[Any]:
    """The steps of these operations, grouped by operation, in plan order."""
    ids = select(operations.c.id).where(operations.c.number.in_(numbers))
    return select(steps).where(steps.c.operation.in_(ids)).order_by(steps.c.operation, steps.c.position)


def _lock(id: str) -> Select[int]:
    """Lock this operation until the transaction ends; on SQLite the transaction itself is the lock."""
    return _by_id(id).with_for_update()


def _change_operation(record: Record) -> Update:
    """Update the changing part of an operation."""
    return update(operations).where(operations.c.id == record.id).values(_changing(record))


def _change_step(id: str, step: Step) -> Update:
    """Update one action. What it is stays as stored: a running process may still know values that were erased since."""
    row = {
        name: value for name, value in _step_row(step).items() if name not in ("position", "action", "subject", "says")
    }
    return update(steps).where(steps.c.operation == id, steps.c.position == step.position).values(row)


def _mark_verified(id: str, positions: Collection[int], at: datetime) -> Update:
    """Mark completed actions as verified."""
    done = (steps.c.operation == id, steps.c.position.in_(positions), steps.c.progress == str(Progress.DONE))
    return update(steps).where(*done).values(progress=str(Progress.VERIFIED), at=at)


def _mark_to_stop(id: str, stop: Stop) -> Update:
    """Ask the process that runs this operation to pause or cancel it; a requested cancel is not replaced by a pause."""
    wish = case((operations.c.stop_requested == str(Stop.CANCEL), str(Stop.CANCEL)), else_=str(stop))
    return update(operations).where(operations.c.id == id).values(stop_requested=wish)
