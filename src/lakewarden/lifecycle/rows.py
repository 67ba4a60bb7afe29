"""Rows of a table as an answer, and how many more there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakewarden.display import Series

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows(Series[Row]):
    """Rows that were read, or the number written to a file. In Python it is also the sequence of its rows."""

    rows_read: int
    """The number of rows read or written."""
    rows_total: int | None
    """The total number of rows; None if counting would read too much."""
    cut: bool
    """Whether there are more rows than requested."""
    file: str | None = None
    rows: list[Row] = field(default_factory=list)
    """The rows, unless they were written to a file."""
    left_out: str = ""
    """Of a view set: partitions that were not read."""

    def series(self) -> list[Row]:
        return self.rows
