"""The store of recorded positions of database tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, insert, select

from lakewarden.records.sequence import RecordedPosition
from lakewarden.state.database import Database
from lakewarden.state.tables import sequence_positions

_APART = timedelta(hours=1)
_MOST = 1000


class SqlPositions:
    """Recorded positions, shared between processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def positions(self, table: str) -> Sequence[RecordedPosition]:
        if not self._database.exists():
            return []
        rows = sequence_positions.c
        of_table = select(rows.at, rows.position).where(rows.table == table).order_by(rows.at)
        with self._database.connect() as connection:
            return [RecordedPosition(row.at, tuple(row.position)) for row in connection.execute(of_table)]

    def record(self, table: str, found: RecordedPosition) -> None:
        rows = sequence_positions.c
        newest = select(rows.at).where(rows.table == table).order_by(rows.at.desc())
        with self._database.begin() as connection:
            times = connection.execute(newest).scalars().all()
            if times and found.at - times[0] < _APART:
                return
            row = {"table": table, "at": found.at, "position": list(found.position)}
            connection.execute(insert(sequence_positions), row)
            if len(times) >= _MOST:
                oldest = times[_MOST - 1]
                connection.execute(delete(sequence_positions).where(rows.table == table, rows.at <= oldest))
