"""What the journal tells of somebody who was erased, told otherwise: paths of files, where those tell keys.

Operations of long ago listed and named files that lay in a partition of an erased value. Those files are gone; here
their paths go too. Only rows that name such a partition are looked at, and only what is about the value changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection, bindparam, column, or_, select, update
from sqlalchemy import table as plain_table

from lakewarden.lifecycle.plan import veil_files
from lakewarden.state.tables import action_files, steps

Told = Callable[[str], str]
_TEXTS = {  # as they are stored, whatever is in them
    "operations": (("id",), ("request", "plan", "findings", "error", "result")),
    "steps": (("operation", "position"), ("says", "facts", "error")),
}


def veil_journal(connection: Connection, tables: Collection[str], marks: Sequence[str], told: Told) -> None:
    """Tell otherwise what rows tell that hold one of the marks, and the files of operations on these tables."""
    for name, (keys, texts) in _TEXTS.items():
        _veil_texts(connection, name, keys, texts, marks, told)
    about = select(steps.c.operation).where(steps.c.table.in_(tables))
    of_tables = action_files.c.operation.in_(about)
    for row in connection.execute(select(action_files).where(of_tables)).all():
        veiled = veil_files(bytes(row.packed), told)
        if veiled != row.packed:
            same = (action_files.c.operation == row.operation) & (action_files.c.action == row.action)
            connection.execute(update(action_files).where(same).values(packed=veiled))


def _veil_texts(
    connection: Connection, name: str, keys: Sequence[str], texts: Sequence[str], marks: Sequence[str], told: Told
) -> None:
    rows = plain_table(name, *(column(each) for each in (*keys, *texts)))
    telling = or_(*(rows.c[text].contains(mark, autoescape=True) for text in texts for mark in marks))
    for row in connection.execute(select(rows).where(telling)).mappings().all():
        veiled = {text: told(row[text]) for text in texts if row[text] is not None}
        if any(veiled[text] != row[text] for text in veiled):
            place = [rows.c[key] == bindparam(f"at_{key}", row[key]) for key in keys]
            connection.execute(update(rows).where(*place).values(veiled))
