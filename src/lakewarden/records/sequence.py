"""Positions of database tables as earlier runs found them: exact observations of how fast a table fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class RecordedPosition:
    """The greatest position of a table at a time, with a value for each column of its partitioning."""

    at: datetime
    position: tuple[int, ...]


class PositionReader(Protocol):
    def positions(self, table: str) -> Sequence[RecordedPosition]:
        """What was recorded for a table, by the key of its lease; oldest first."""
        ...


class Positions(PositionReader, Protocol):
    def record(self, table: str, found: RecordedPosition) -> None:
        """Record a position, unless one was recorded within the last hour; only the newest thousand are kept."""
        ...
