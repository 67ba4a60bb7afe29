"""Divides the rows of a table into pieces, so that no statement reads for long.

A statement that reads keeps every ALTER of its table waiting, and writers wait behind an ALTER that waits. Between two
pieces, `maintain` gets its turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from lakewarden.engine.base.quoting import identifier
from lakewarden.features.sequence.connection import Reading

_GROWTH = 4
"""A piece has at most so many times as many rows as the one before."""


@dataclass(frozen=True)
class Piece:
    """Rows above one value of a column up to another; None where there is no limit."""

    after: str | None
    last: str | None

    def condition(self, column: str) -> str:
        """For a WHERE; `column` as in SQL."""
        limits = ((">", self.after), ("<=", self.last))
        return " AND ".join(f"{column} {sign} {value}" for sign, value in limits if value is not None) or "TRUE"


def pieces(connection: Reading, rows: str, column: str, size: int, seconds: float | None = None) -> Iterator[Piece]:
    """Pieces of about so many rows, in order; `rows` is what follows FROM.

    With `seconds`, their size follows how long the caller took for the last one.
    """
    at, after = identifier(column), None
    while True:
        above = Piece(after, None).condition(at)
        ends = connection.rows(
            f"SELECT {at} AS last FROM {rows} WHERE {above} ORDER BY {at} LIMIT 1 OFFSET {size}"  # noqa: S608
        )
        last, began = str(ends[0]["last"]) if ends else None, time.monotonic()
        yield Piece(after, last)
        if last is None:
            return
        after = last
        if seconds is not None:
            size = max(1, int(size * seconds / max(time.monotonic() - began, seconds / _GROWTH)))
