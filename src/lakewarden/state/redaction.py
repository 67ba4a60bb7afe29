"""Redacts erased values in the journal: paths of files that contain a key.

Past operations listed and named files in the partition of an erased value. Those files are gone; here their paths are
redacted too. Only rows that name such a partition are read, and only the value is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, column, or_, select, union, update
from sqlalchemy import table as plain_table

from lakewarden.lifecycle.planned_files import redact_files
from lakewarden.state.tables import action_files, operations, steps

Redact = Callable[[str], str]
_TEXTS = {  # as stored, whatever their type
    "operations": (("id",), ("request", "plan", "findings", "error", "result")),
    "steps": (("operation", "position"), ("says", "facts", "error")),
}


def redact_journal(connection: Connection, table: str, uuid: str, marks: Sequence[str], redact: Redact) -> None:
    """Redact rows that contain one of the marks, whatever they are about, and the files of operations on a table."""
    for name, (keys, texts) in _TEXTS.items():
        _redact_texts(connection, name, keys, texts, marks, redact)
    for row in connection.execute(_lists_of(table, uuid)).all():
        redacted = redact_files(bytes(row.packed), redact)
        if redacted != row.packed:
            same = (action_files.c.operation == row.operation) & (action_files.c.action == row.action)
            connection.execute(update(action_files).where(same).values(packed=redacted))


def _redact_texts(
    connection: Connection, name: str, keys: Sequence[str], texts: Sequence[str], marks: Sequence[str], redact: Redact
) -> None:
    rows = plain_table(name, *(column(each) for each in (*keys, *texts)))
    matching = or_(*(rows.c[text].contains(mark, autoescape=True) for text in texts for mark in marks))
    for row in connection.execute(select(rows).where(matching)).mappings().all():
        redacted = {text: redact(row[text]) for text in texts if row[text] is not None}
        if any(redacted[text] != row[text] for text in redacted):
            place = [rows.c[key] == bindparam(f"at_{key}", row[key]) for key in keys]
            connection.execute(update(rows).where(*place).values(redacted))


def _lists_of(table: str, uuid: str) -> Select[Any]:
    """The file lists of operations on a table, under its current and any former name.

    The lists are compressed, so they cannot be selected by content; only plans with lists are searched for the UUID.
    """
    listed = operations.c.id.in_(select(action_files.c.operation))
    named = select(steps.c.operation).where(steps.c.subject == table)
    meant = select(operations.c.id).where(listed, operations.c.plan.contains(uuid, autoescape=True))
    return select(action_files).where(action_files.c.operation.in_(union(named, meant)))
