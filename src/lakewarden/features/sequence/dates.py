"""When rows of a partition arrived: looked up by the date query of the table, else known from names.

The query returns the time of the first row above an id, as seconds since 1970. What it cannot date has no date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakewarden.config import SequenceSettings
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.names import date_in
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position, is_empty, position_of
from lakewarden.features.sequence.rate import Observation
from lakewarden.records.sequence import RecordedPosition

_MOST_PARTITIONS = 36
"""Older partitions say nothing about how fast a table fills now."""


def first_row_at(connection: Reading, sequences: SequenceSettings, table: str, id: int) -> datetime | None:
    """The time of the first row at or above an id, by the date query; None if it finds none, or is not configured."""
    query = sequences.table(table).earliest_utc_timestamp_query
    if query is None:
        return None
    rows = connection.rows(query.replace("?", str(id - 1)))
    values = [value for row in rows for value in row.values()]
    if len(values) != 1 or values[0] is None:
        return None
    try:
        seconds = float(values[0])
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None  # of a TIMESTAMP 0000-00-00 it is 0
    except (ValueError, OverflowError, OSError):
        raise UnfitDatabase(
            f"the date query of {table} returned {values[0]}", "It must return seconds since 1970: UNIX_TIMESTAMP(…)."
        ) from None


def start_of(
    connection: Reading, sequences: SequenceSettings, table: PartitionedTable, partition: Partition
) -> datetime | None:
    """When a partition began to fill: by the date query, else by its name."""
    lower = table.lower_bound(partition)
    exact = first_row_at(connection, sequences, table.name, lower[0] if lower else 0)
    named = date_in(partition.name)
    return exact or (named.at if named else None)


def youngest_row(
    connection: Reading, sequences: SequenceSettings, table: PartitionedTable, partition: Partition
) -> datetime | None:
    """When the newest row of a partition itself arrived, by the date query; None if that is not known exactly."""
    last = position_of(connection, table, partition)
    if last is None:
        return None
    own = first_row_at(connection, sequences, table.name, last[0])
    if own is None or len(table.columns) == 1:
        return own
    return first_row_at(connection, sequences, table.name, last[0] + 1)  # several rows may share the first column


@dataclass(frozen=True)
class Sighting:
    """A table was at a position at a time: recorded or looked up, or as a name says."""

    at: datetime
    position: Position
    is_exact: bool = True
    resolution: timedelta = timedelta()

    def of_column(self, column: int) -> Observation:
        return Observation(self.at, self.position[column], self.is_exact, self.resolution)


def sightings(
    connection: Reading,
    sequences: SequenceSettings,
    table: PartitionedTable,
    non_empty: Sequence[Partition],
    recorded: Sequence[RecordedPosition],
) -> list[Sighting]:
    """What is known of when a table was where; names only if there is no date query."""
    known = [Sighting(each.at, each.position) for each in recorded if len(each.position) == len(table.columns)]
    has_query = sequences.table(table.name).earliest_utc_timestamp_query is not None
    for partition in non_empty[-_MOST_PARTITIONS:]:
        lower, named = table.lower_bound(partition), date_in(partition.name)
        if lower is None:
            continue
        if has_query and is_empty(connection, table, partition.name):
            continue  # as if detached: the first row above its bound is another partition's
        if has_query:
            exact = first_row_at(connection, sequences, table.name, lower[0])
            known += [Sighting(exact, lower)] if exact else []
        elif named is not None:
            known.append(Sighting(named.at, lower, is_exact=False, resolution=named.span))
    return known
