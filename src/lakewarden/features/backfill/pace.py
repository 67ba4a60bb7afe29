"""How fast a run writes. Only time spent writing counts, not time that it was paused or waited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

SECONDS = "seconds"
"""In the journal: how long a batch took, with its share of the job that wrote it."""


@dataclass
class Pace:
    """What a run has written so far, and what is left. One job writes several batches: each has a share of its time."""

    rows: int = 0
    seconds: float = 0.0
    left: int = 0
    """Source rows that are not published yet."""
    _per_row: float = 0.0

    def job(self, seconds: float, rows: int, left: int) -> None:
        """A job took so long for so many source rows; so many are left with them."""
        self._per_row, self.left = seconds / max(rows, 1), left

    def batch(self, rows: int, seconds: float) -> float:
        """Source rows of the last job were published within so many seconds; returns these with the job's share."""
        took = seconds + rows * self._per_row
        self.rows, self.seconds, self.left = self.rows + rows, self.seconds + took, max(self.left - rows, 0)
        return took

    def __str__(self) -> str:
        """`45,000 rows/s, 0:03:20 left`; empty if nothing is known."""
        if not self.rows or not self.seconds:
            return ""
        rate = self.rows / self.seconds
        return f"{rate:,.0f} rows/s, {timedelta(seconds=round(self.left / rate))} left"
