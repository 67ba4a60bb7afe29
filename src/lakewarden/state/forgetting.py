"""Removes erased values from the control database: from every text that `tables.py` declares to hold values of rows.

Each row is read once, however many values there are, and most are only searched for a word of them. Actions whose
arguments had a value get the id that they have without it, as a plan's own id is a hash of them, too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, bindparam, column, or_, select, update
from sqlalchemy import table as plain_table

from lakewarden.erased_values import ErasedValues
from lakewarden.errors import TracesLeft
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import redact_files
from lakewarden.state.tables import action_files, erasure_evidence, erasure_requests, metadata, operations, steps

_AT_ONCE = 500
_NAMES_AT_ONCE = 100  # SQLite limits how deep a condition is
Row = Mapping[str, Any]


@cache
def searched() -> dict[str, tuple[str, ...]]:
    """The columns that are searched, by table."""
    found = {
        table.name: tuple(each.name for each in table.columns if each.info.get("may_hold_values"))
        for table in metadata.sorted_tables
    }
    return {table: columns for table, columns in found.items() if columns}


def forget(connection: Connection, values: ErasedValues) -> int:
    """Replace the values in every text that may hold them; returns in how many rows there were any."""
    tables = sorted(values.tables)
    some = (tables[start : start + _NAMES_AT_ONCE] for start in range(0, len(tables), _NAMES_AT_ONCE))
    about = {operation for names in some for operation in connection.scalars(_about(names))}
    found: dict[str, set[str]] = {}
    count = sum(_forget_in(connection, metadata.tables[name], values, about, found) for name in searched())
    for operation, small in found.items():
        for table, key in ((operations, "id"), (steps, "operation")):
            _forget_in(connection, table, values.within(small), set(), {}, **{key: operation})
    left = sorted(set(traces(connection, values))) if count else []
    if left:
        raise TracesLeft(
            f"the control database still has values of the request in {', '.join(left)}",
            "The request stays open. lakewarden operation show ID shows what an operation recorded. This is an error "
            "in Lakewarden: please report under which name the value stands there.",
            places=[{"object": "control database", "where": where} for where in left],
        )
    return count


def traces(connection: Connection, values: ErasedValues) -> Iterator[str]:
    """The columns that still have one of the values, and of which operation.

    Words and numbers also mean other things, so only values with other characters count.
    """
    for name, columns in searched().items():
        table = metadata.tables[name]
        for row in _rows(connection, table, {}):
            for each in columns:
                if row[each] is not None and values.is_left_in(_raw(row[each])):
                    of = _operation(table, row)
                    yield f"{name}.{each} of {of}" if of else f"{name}.{each}"


def _forget_in(
    connection: Connection,
    table: Table,
    values: ErasedValues,
    about: set[str],
    found: dict[str, set[str]],
    **only: str,
) -> int:
    """Replace values in one table. Short ones are noted by operation, for its sentences, which have them as words."""

    def without(row: Row) -> dict[str, Any]:
        operation = _operation(table, row)
        elsewhere: set[str] | None = set() if table is erasure_requests else None  # persons are named there
        small = found.setdefault(operation, set()) if operation in about else elsewhere
        after = {name: _without(values, table, row, name, small) for name in searched()[table.name]}
        return {name: value for name, value in after.items() if value is not None and value != row[name]}

    changed = [row for row in _rows(connection, table, only) if without(row)]
    for each in changed:
        at = {key.name: each[key.name] for key in table.primary_key}
        row = next(_rows(connection, table, at, locks=True))  # again: a running operation may have changed it
        new = without(row)
        if new:
            connection.execute(_change(table, row, new))
        if table is operations and "plan" in new:
            _renumber(connection, str(row["id"]), str(row["plan"]), str(new["plan"]))
    for operation in [operation for operation, small in found.items() if not small]:
        del found[operation]
    return len(changed)


def _without(values: ErasedValues, table: Table, row: Row, name: str, small: set[str] | None) -> Any:
    """A column without the values; None if it is empty."""
    stored = row[name]
    if stored is None:
        return None
    raw = _raw(stored)
    if table is action_files:
        words = small is not None
        return redact_files(bytes(stored), lambda path: values.path(path, words)) if values.may_be_in(raw) else stored
    if not (values.may_be_in(raw) if small is None else values.any_may_be_in(raw)):
        return stored
    cleaned = values.without(raw, small is not None, set() if small is None else small)
    if cleaned == raw:
        return stored
    return zlib.compress(cleaned.encode(), level=1) if isinstance(stored, bytes | memoryview) else cleaned


def _raw(stored: Any) -> str:
    return zlib.decompress(bytes(stored)).decode() if isinstance(stored, bytes | memoryview) else str(stored)


def _renumber(connection: Connection, operation: str, before: str, after: str) -> None:
    """Give an operation's plan and actions the ids that they have without the values."""
    try:
        old, new = Plan.from_json(before), Plan.from_json(after)
    except ValueError:  # of another version: it is listed, and cannot be applied
        return
    connection.execute(update(operations).where(operations.c.id == operation).values(plan_id=new.id))
    taken = {action.id for action in old.actions}
    for at, (one, other) in enumerate(zip(old.actions, new.actions, strict=True)):
        if one.id == other.id:
            continue
        same = (steps.c.operation == operation) & (steps.c.position == at)
        connection.execute(update(steps).where(same).values(action=other.id))
        unique = f"{other.id}-{at}" if other.id in taken else other.id  # the value was all that made two differ
        taken.add(unique)
        for table in (action_files, erasure_evidence):
            same = (table.c.operation == operation) & (table.c.action == one.id)
            connection.execute(update(table).where(same).values(action=unique))


def _operation(table: Table, row: Row) -> str:
    """The operation that a row belongs to; empty if it belongs to none."""
    return str(row["id" if table is operations else "operation"]) if _has_operation(table) else ""


def _has_operation(table: Table) -> bool:
    return table is operations or "operation" in table.columns


def _rows(connection: Connection, table: Table, only: Mapping[str, Any], locks: bool = False) -> Iterator[Row]:
    """The texts of a table as they are stored, some rows at a time, with its key."""
    keys = [key.name for key in table.primary_key]
    wanted = dict.fromkeys([*keys, *searched()[table.name], *(["id"] if table is operations else [])])
    extra = ["operation"] if "operation" in table.columns and "operation" not in wanted else []
    rows = plain_table(table.name, *(column(each) for each in (*wanted, *extra)))
    query = select(rows).where(*(rows.c[name] == value for name, value in only.items()))
    query = query.with_for_update() if locks else query
    with connection.execute(query.execution_options(yield_per=_AT_ONCE)) as found:
        yield from (dict(row) for row in found.mappings())


def _change(table: Table, row: Row, new: Mapping[str, Any]) -> Any:
    """Write the changed texts of a row."""
    keys = [key.name for key in table.primary_key]
    rows = plain_table(table.name, *(column(each) for each in (*keys, *new)))
    place = [rows.c[key] == bindparam(f"at_{key}", row[key]) for key in keys]
    return update(rows).where(*place).values(dict(new))


def _about(tables: Sequence[str]) -> Any:
    """The operations whose plans name one of these tables, by name or UUID."""
    named = [operations.c.plan.contains(json.dumps(table)[1:-1], autoescape=True) for table in tables]
    return select(operations.c.id).where(or_(*named))
