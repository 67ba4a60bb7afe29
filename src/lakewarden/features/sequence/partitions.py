"""A database table partitioned by RANGE over one or several integer columns, as the server describes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakewarden.engine.base.quoting import identifier
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.connection import Reading, text_literal

Position = tuple[int, ...]
"""A value for each column of the partitioning; positions are in the order of tuples, as for MariaDB."""

MAXVALUE = "MAXVALUE"
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_COLUMN = re.compile(r"`((?:[^`]|``)+)`")
_ONLY_COLUMNS = re.compile(r"`(?:[^`]|``)+`(?:,`(?:[^`]|``)+`)*")


@dataclass(frozen=True)
class Partition:
    """One partition: rows below its bound, and not below the one before."""

    name: str
    bound: Position | None
    """None is MAXVALUE."""

    @property
    def is_tail(self) -> bool:
        return self.bound is None

    def holds(self, position: Position) -> bool:
        """Whether a row at this position belongs here, if it is in no partition before."""
        return self.bound is None or position < self.bound


@dataclass(frozen=True)
class PartitionedTable:
    """A table and its partitions, in order; the last one is MAXVALUE."""

    server: str
    database: str
    name: str
    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def sql_name(self) -> str:
        return identifier(self.database, self.name)

    def lower_bound(self, partition: Partition) -> Position | None:
        """The bound of the partition before; None for the first one."""
        place = self.partitions.index(partition)
        return self.partitions[place - 1].bound if place else None


def read_table(connection: Reading, name: str) -> PartitionedTable:
    """A table as it is now; refused if its partitions cannot be maintained."""
    database = connection.database
    where = f"WHERE TABLE_SCHEMA = {text_literal(database)} AND TABLE_NAME = {text_literal(name)}"
    rows = connection.rows(
        "SELECT PARTITION_NAME AS name, PARTITION_METHOD AS method, PARTITION_EXPRESSION AS expression, "  # noqa: S608
        "PARTITION_DESCRIPTION AS bound, SUBPARTITION_NAME AS sub "
        f"FROM information_schema.PARTITIONS {where} ORDER BY PARTITION_ORDINAL_POSITION"
    )
    about = f"{database}.{name}"
    if not rows:
        raise UnfitDatabase(f"there is no table {about}", "Check its name, and the privileges of the account.")
    first = rows[0]
    if first["name"] is None:
        raise UnfitDatabase(f"{about} is not partitioned", "lakewarden sequence convert shows how to partition it.")
    method, expression = str(first["method"]), str(first["expression"])
    if method not in ("RANGE", "RANGE COLUMNS") or not _ONLY_COLUMNS.fullmatch(expression):
        raise UnfitDatabase(f"{about} is partitioned by {method} ({expression})", "Supported: RANGE over columns.")
    if first["sub"] is not None:
        raise UnfitDatabase(f"{about} has subpartitions", "They are not supported.")
    columns = tuple(column.replace("``", "`") for column in _COLUMN.findall(expression))
    check_columns(connection, name, columns)
    partitions = tuple(Partition(str(row["name"]), _bound(about, str(row["bound"]), len(columns))) for row in rows)
    if not partitions[-1].is_tail:
        raise UnfitDatabase(f"{about} has no partition for MAXVALUE", "Add one as the last partition.")
    bounds = [partition.bound for partition in partitions[:-1]]
    if any(low is None or high is None or low >= high for low, high in pairwise(bounds)):
        # The server describes an unsigned bound above 2^63 wrongly.
        raise UnfitDatabase(f"{about} has bounds that do not grow", "Bounds of 2^63 and above are not supported.")
    return PartitionedTable(connection.server, database, name, columns, partitions)


def check_columns(connection: Reading, name: str, columns: Sequence[str]) -> None:
    """Refuse columns whose values are no positions: anything but integers, and NULL."""
    about = f"{connection.database}.{name}"
    described = connection.rows(
        "SELECT COLUMN_NAME AS name, DATA_TYPE AS type, IS_NULLABLE AS nullable FROM information_schema.COLUMNS "  # noqa: S608
        f"WHERE TABLE_SCHEMA = {text_literal(connection.database)} AND TABLE_NAME = {text_literal(name)}"
    )
    known = {str(row["name"]).lower(): (str(row["type"]), row["nullable"] == "YES") for row in described}
    for column in columns:
        if column.lower() not in known:
            raise UnfitDatabase(f"{about} has no column {column}", "Check the names.")
        type, is_nullable = known[column.lower()]
        if type not in _INTEGERS or is_nullable:
            what = f"{column} of {about} is {type}{' and may be NULL' if is_nullable else ''}"
            raise UnfitDatabase(f"{what}: it cannot be partitioned by that", "Supported: integers that are NOT NULL.")


def position_of(connection: Reading, table: PartitionedTable, partition: Partition | None = None) -> Position | None:
    """The greatest position in a table, or in one partition; None if it has no rows."""
    columns = [identifier(column) for column in table.columns]
    where = f" PARTITION ({identifier(partition.name)})" if partition else ""
    rows = connection.rows(
        f"SELECT {', '.join(columns)} FROM {table.sql_name}{where} "  # noqa: S608
        f"ORDER BY {', '.join(f'{column} DESC' for column in columns)} LIMIT 1"
    )
    return tuple(int(str(rows[0][column])) for column in table.columns) if rows else None


def is_empty(connection: Reading, table: PartitionedTable, partition: str) -> bool:
    """Whether a partition has no rows. Statistics of the server are estimates, so it is looked up."""
    return not connection.rows(f"SELECT 1 FROM {table.sql_name} PARTITION ({identifier(partition)}) LIMIT 1")  # noqa: S608


def has_rows(
    connection: Reading, table: PartitionedTable, after: Position | None, below: Position | None, partition: str = ""
) -> bool:
    """Whether a table, or one partition, has rows from one position up to another."""
    columns = [identifier(column) for column in table.columns]
    conditions = [
        f"{columns[0]} {sign}= {bound[0]} AND ({', '.join(columns)}) {comparison} ({', '.join(map(str, bound))})"
        for bound, sign, comparison in ((after, ">", ">="), (below, "<", "<"))  # the first column by its index
        if bound is not None
    ]
    source = f"{table.sql_name} PARTITION ({identifier(partition)})" if partition else table.sql_name
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return bool(connection.rows(f"SELECT 1 FROM {source}{where} LIMIT 1"))  # noqa: S608


def about_rows(connection: Reading, name: str, partition: str = "") -> int:
    """About how many rows a table or a partition has, by the server's statistics."""
    only = f" AND PARTITION_NAME = {text_literal(partition)}" if partition else ""
    (found,) = connection.rows(
        "SELECT SUM(TABLE_ROWS) AS counted FROM information_schema.PARTITIONS "  # noqa: S608
        f"WHERE TABLE_SCHEMA = {text_literal(connection.database)} AND TABLE_NAME = {text_literal(name)}{only}"
    )
    return int(float(found["counted"] or 0))


def _bound(about: str, description: str, columns: int) -> Position | None:
    parts = description.split(",")
    if parts == [MAXVALUE] * columns:
        return None
    if len(parts) != columns or not all(re.fullmatch(r"-?\d+", part) for part in parts):
        raise UnfitDatabase(f"{about} has a partition below {description}", "Bounds must be integers.")
    return tuple(int(part) for part in parts)
