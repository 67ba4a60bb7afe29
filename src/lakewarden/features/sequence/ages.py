"""How old the rows of full partitions are: what retention judges.

The youngest row of a partition decides, by the date query. Without a query, the next partition's name says when that
one began to fill, so when this one was full. A partition without a date is never due.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.config import SequenceSettings
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dates import youngest_row
from lakewarden.features.sequence.intention import split
from lakewarden.features.sequence.names import date_in
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, is_empty, position_of


@dataclass(frozen=True)
class Age:
    """A full partition, and how old its youngest row is."""

    partition: Partition
    youngest: datetime | None
    """None if it is not known, or if there are no rows."""
    is_exact: bool
    """By the date query, not by names."""

    def is_past(self, kept_for: timedelta, now: datetime) -> bool:
        return self.youngest is not None and self.youngest + kept_for < now


def ages(connection: Reading, sequences: SequenceSettings, table: PartitionedTable) -> list[Age]:
    """The partitions before the one that is being filled, the oldest first."""
    position = position_of(connection, table)
    filled = () if position is None else split(table, position).filled
    if sequences.table(table.name).earliest_utc_timestamp_query is not None:
        return [Age(each, youngest_row(connection, sequences, table, each), True) for each in filled]
    following = table.partitions[1:]
    return [
        Age(each, _by_name(connection, table, each, after), False)
        for each, after in zip(filled, following, strict=False)
    ]


def _by_name(
    connection: Reading, table: PartitionedTable, partition: Partition, following: Partition
) -> datetime | None:
    """The last moment of the next partition's name; None if names run backwards, or the partition has no rows."""
    own, after = date_in(partition.name), date_in(following.name)
    if own is None or after is None or after.at <= own.at or is_empty(connection, table, partition.name):
        return None
    return after.at + after.span
