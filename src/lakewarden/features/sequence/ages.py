"""How old the rows of full partitions are: what retention judges.

The youngest row of a partition decides, by the date query. Without a query, it is taken for younger than it may be,
never for older: recorded positions say by when the partition was full, and the next partition's name says when that one
was predicted to begin. Names may be early by weeks, so one period is added. A partition without a date is never due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.config import SequenceSettings
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dates import youngest_row
from lakewarden.features.sequence.intention import split
from lakewarden.features.sequence.names import date_in
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, is_empty, position_of
from lakewarden.records.sequence import RecordedPosition


@dataclass(frozen=True)
class Age:
    """A full partition, and how old its youngest row is."""

    partition: Partition
    youngest: datetime | None
    """None if it is not known, or if there are no rows."""
    is_exact: bool
    """By the date query, not by names and recorded positions."""

    def is_past(self, kept_for: timedelta, now: datetime) -> bool:
        return self.youngest is not None and self.youngest + kept_for < now


def ages(
    connection: Reading,
    sequences: SequenceSettings,
    table: PartitionedTable,
    recorded: Sequence[RecordedPosition] = (),
) -> list[Age]:
    """The partitions before the one that is being filled, the oldest first."""
    position = position_of(connection, table)
    filled = () if position is None else split(table, position).filled
    if sequences.table(table.name).earliest_utc_timestamp_query is not None:
        return [Age(each, youngest_row(connection, sequences, table, each), True) for each in filled]
    fitting = [each for each in recorded if len(each.position) == len(table.columns)]
    dated = zip(filled, table.partitions[1:], strict=False)
    return [
        Age(each, _full_by(each, after, fitting, sequences.period(table.name)), False)
        if not is_empty(connection, table, each.name)
        else Age(each, None, False)
        for each, after in dated
    ]


def _full_by(
    partition: Partition, following: Partition, recorded: Sequence[RecordedPosition], period: timedelta
) -> datetime | None:
    """When a partition was full, at the latest; None if that is not known."""
    passed = [each.at for each in recorded if partition.bound is not None and each.position >= partition.bound]
    own, after = date_in(partition.name), date_in(following.name)
    named = after.at + after.span + period if own and after and after.at > own.at else None
    if not passed or named is None:
        return min(passed, default=named)
    return min(passed) if len(passed) < len(recorded) else min(*passed, named)  # recorded before, and after
