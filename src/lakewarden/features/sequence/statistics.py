"""Figures about the partitions of a table: their number, ages and distances, and when the last one will be reached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lakewarden.config import SequenceSettings
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dates import first_row_at
from lakewarden.features.sequence.names import date_in
from lakewarden.features.sequence.partitions import PartitionedTable
from lakewarden.features.sequence.survey import Survey


@dataclass(frozen=True)
class TableStatistics:
    """Figures about one table; what cannot be dated is left out."""

    table: str
    partitions: int = 0
    time_since_newest_partition: timedelta | None = None
    time_since_oldest_partition: timedelta | None = None
    mean_partition_delta: timedelta | None = None
    max_partition_delta: timedelta | None = None
    time_until_overrun: timedelta | None = None
    """Until rows are predicted to reach the last partition, which then cannot be split without copying them."""
    ids_per_day: float | None = None
    retention: timedelta | None = None
    problem: str = ""
    """Why the table cannot be maintained."""


def statistics(
    connection: Reading, sequences: SequenceSettings, of: Survey | PartitionedTable, now: datetime
) -> TableStatistics:
    table = of.table if isinstance(of, Survey) else of
    named = [(place, each.at) for place, p in enumerate(table.partitions) if (each := date_in(p.name))]
    newest = date_in(table.partitions[-1].name)
    oldest = first_row_at(connection, sequences, table.name, 0) or (named[0][1] if named else None)
    deltas = [later - earlier for (a, earlier), (b, later) in pairwise(named) if b == a + 1]
    (first, begin), (last, end) = (named[0], named[-1]) if named else ((0, now), (0, now))
    outlook = of.outlook if isinstance(of, Survey) else None
    rates = outlook.rates if outlook else ()
    return TableStatistics(
        table=table.name,
        partitions=len(table.partitions),
        time_since_newest_partition=_rounded(now - newest.at if newest else None),
        time_since_oldest_partition=_rounded(now - oldest if oldest else None),
        mean_partition_delta=_rounded((end - begin) / (last - first) if last > first else None),
        max_partition_delta=max(deltas, default=None),
        time_until_overrun=_rounded(_until_overrun(of, now)),
        ids_per_day=round(rates[0].per_day, 3) if rates else None,
        retention=sequences.table(table.name).kept_for,
    )


def _rounded(span: timedelta | None) -> timedelta | None:
    return None if span is None else timedelta(seconds=round(span.total_seconds()))


def _until_overrun(of: Survey | PartitionedTable, now: datetime) -> timedelta | None:
    """Negative or zero if rows are in the last partition already; by its name if the rate is not known."""
    table = of.table if isinstance(of, Survey) else of
    if isinstance(of, Survey) and of.parts.active.is_tail:
        return timedelta()
    lower = table.lower_bound(table.partitions[-1])
    if isinstance(of, Survey) and of.outlook is not None and lower is not None:
        return of.outlook.reached(lower).at - now
    named = date_in(table.partitions[-1].name)
    return named.at - now if named else None
