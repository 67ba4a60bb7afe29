"""Statements that give a table partitions ahead of its rows, if it has none or rows are in its last one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import Field

from lakewarden.config import read_document
from lakewarden.engine.base.quoting import identifier
from lakewarden.errors import BadValue, UnfitDatabase
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.intention import Outlook, last_date
from lakewarden.features.sequence.names import name_for
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position, check_columns, read_table
from lakewarden.features.sequence.rate import DAY, Rate
from lakewarden.features.sequence.reorganizing import Reorganization, definition
from lakewarden.features.sequence.target import SequenceRequest

_SOON = timedelta(hours=2)
"""The first new partition begins shortly after the statement is expected to run."""


class AssumedColumns(SequenceRequest):
    """A request about tables that may not be partitioned yet."""

    assume_partitioned_on: list[str] = Field(
        [], description="Columns to partition by, for tables that are not partitioned."
    )


@dataclass(frozen=True)
class RecordedFor:
    """Positions that `sequence record` wrote, by table and column."""

    at: datetime
    tables: dict[str, dict[str, int]]


def read_record(file: Path) -> RecordedFor:
    """The file of `sequence record`, or of the tool that operators use today."""
    data = read_document(file)
    try:
        at = data["time"] if isinstance(data["time"], datetime) else datetime.fromisoformat(str(data["time"]))
        tables = {str(t): {str(c): int(v) for c, v in columns.items()} for t, columns in data["tables"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadValue(f"{file} was not written by sequence record", "It has the keys time and tables.") from None
    return RecordedFor(at if at.tzinfo else at.replace(tzinfo=UTC), tables)


def partitioning(connection: Reading, name: str, assumed: list[str]) -> PartitionedTable:
    """The table; with assumed columns, as if it had a single partition over them."""
    if not assumed:
        return read_table(connection, name)
    check_columns(connection, name, assumed)
    return PartitionedTable(connection.server, connection.database, name, tuple(assumed), (Partition("p_start", None),))


def speed(
    recorded: dict[str, int], at: datetime, table: PartitionedTable, position: Position, now: datetime
) -> Outlook:
    """How fast a table fills, by two positions."""
    days = (now - at) / DAY
    if days <= 0 or set(recorded) != set(table.columns):
        raise UnfitDatabase(f"the recorded positions of {table} do not fit", "Record them again, and wait.")
    rates = [(here - recorded[column]) / days for column, here in zip(table.columns, position, strict=True)]
    if not any(rate > 0 for rate in rates):
        raise UnfitDatabase(f"{table} has not grown since its positions were recorded", "Wait longer.")
    return Outlook(position, tuple(Rate(rate, rate, rate) for rate in rates), now)


def statement(table: PartitionedTable, outlook: Outlook, period: timedelta, num_empty: int, is_assumed: bool) -> str:
    """Split the last partition above the rows, or partition the table; the rows of what is split are copied."""
    tail = table.partitions[-1]
    bound = outlook.after(outlook.position, _SOON)
    parts, last = [Partition(tail.name, bound)], last_date(table.partitions)
    for number in range(num_empty):
        name = name_for(outlook.reached(bound).at, outlook.now, last)
        last = last_date([Partition(name, None)])
        bound = outlook.after(bound, period)
        parts.append(Partition(name, bound if number < num_empty - 1 else None))
    if not is_assumed:
        return Reorganization((tail,), tuple(parts)).sql(table)
    kind = "RANGE" if len(table.columns) == 1 else "RANGE COLUMNS"
    columns = ", ".join(identifier(column) for column in table.columns)
    listed = ", ".join(definition(part, len(table.columns)) for part in parts)
    return f"ALTER TABLE {table.sql_name} WAIT 1 PARTITION BY {kind} ({columns}) ({listed});"
