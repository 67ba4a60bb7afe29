"""Everything that is known about one table at a time: its partitions, its position, and how fast it fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.config import SequenceSettings
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dates import Sighting, sightings
from lakewarden.features.sequence.intention import Outlook, Split, split
from lakewarden.features.sequence.partitions import PartitionedTable, Position, is_empty, position_of, read_table
from lakewarden.features.sequence.rate import Observation, estimate
from lakewarden.features.sequence.target import database_lease
from lakewarden.records.sequence import RecordedPosition

_ATTEMPTS = 3

Recorded = Callable[[str], Sequence[RecordedPosition]]
"""The positions that earlier runs recorded, by the key of a table."""


@dataclass(frozen=True)
class Survey:
    """A table with rows."""

    table: PartitionedTable
    position: Position
    parts: Split
    seen: tuple[Observation, ...]
    """When the first column was where."""
    outlook: Outlook | None
    """None if too little is known to estimate how fast it fills."""


def survey(
    connection: Reading, sequences: SequenceSettings, name: str, recorded: Recorded, now: datetime, period: timedelta
) -> Survey | PartitionedTable:
    """A table as it is now; only the table if it has no rows."""
    table, position, parts = _proved(connection, name)
    if position is None or parts is None:
        return table
    known = sightings(connection, sequences, table, parts.non_empty, recorded(database_lease(table)))
    known.append(Sighting(now, position))
    columns = [[each.of_column(number) for each in known] for number in range(len(table.columns))]
    rates = [estimate(seen, now, period) for seen in columns]
    found = tuple(rate for rate in rates if rate is not None)
    outlook = Outlook(position, found, now) if len(found) == len(rates) else None
    return Survey(table, position, parts, tuple(columns[0]), outlook)


def _proved(connection: Reading, name: str) -> tuple[PartitionedTable, Position | None, Split | None]:
    """The table and its position, with every partition above it proved to be empty; writers may be faster."""
    for _ in range(_ATTEMPTS):
        table = read_table(connection, name)
        position = position_of(connection, table)
        if position is None:
            return table, None, None
        parts = split(table, position)
        if all(is_empty(connection, table, partition.name) for partition in parts.empty):
            return table, position, parts
    raise UnfitDatabase(
        f"{connection.database}.{name} has rows in a partition above its greatest position",
        "Rows reached new partitions while they were looked at. Run it again.",
    )
