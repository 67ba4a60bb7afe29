"""Detached partitions: each is a table of its own beside the database table, its twin.

`EXCHANGE PARTITION` swaps a partition with an empty table of the same structure, in an instant, and back again. The
partition stays in its place without rows until they are dropped: once it is gone, rows of its range could not come
back before MAXVALUE. What a twin is, and since when, is in its comment, so the database itself knows what is detached.

    CREATE TABLE orders__p LIKE orders                              being created
    ALTER TABLE orders__p COMMENT … REMOVE PARTITIONING             a twin without rows
    ALTER TABLE orders EXCHANGE PARTITION p WITH TABLE orders__p    the rows are in the twin
    ALTER TABLE orders__p COMMENT …                                 they were compared: detached since now
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote, unquote

from lakewarden.engine.base.quoting import identifier
from lakewarden.errors import Conflict
from lakewarden.features.sequence.columns import columns_of
from lakewarden.features.sequence.connection import ALTER_SECONDS, LOCK_SECONDS, Altering, Reading, text_literal
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position, is_empty
from lakewarden.lifecycle.failpoints import reach

_MARK = "lakewarden: "
_PLAIN = ' {}[]":,'
_LONGEST_NAME = 64


@dataclass(frozen=True)
class Twin:
    """A table that has, or is about to have, the rows of a partition."""

    table: PartitionedTable
    partition: str
    bound: Position | None
    since: datetime | None
    """When its rows were found equal to the archive's; None as long as it is being detached or restored."""
    is_archived: bool = True

    @property
    def name(self) -> str:
        return twin_name(self.table.name, self.partition)

    @property
    def sql_name(self) -> str:
        return identifier(self.table.database, self.name)

    @property
    def comment(self) -> str:
        since = None if self.since is None else self.since.isoformat()
        known = {"table": self.table.name, "partition": self.partition, "bound": self.bound}
        text = json.dumps({**known, "since": since, "archived": self.is_archived})
        return _MARK + quote(text, safe=_PLAIN)  # a comment must be a plain literal, right in every SQL mode

    @property
    def is_attached(self) -> bool:
        """Whether its partition is still there."""
        return Partition(self.partition, self.bound) in self.table.partitions

    def is_swapped(self, connection: Reading) -> bool:
        """Whether the rows are in the twin, and not in the partition."""
        has_rows = bool(connection.rows(f"SELECT 1 FROM {self.sql_name} LIMIT 1"))  # noqa: S608
        return has_rows or not self.is_attached or is_empty(connection, self.table, self.partition)


def twin_name(table: str, partition: str) -> str:
    name = f"{table}__{partition}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def twins_of(connection: Reading, table: PartitionedTable) -> list[Twin]:
    """The twins of a table, the oldest partition first."""
    rows = connection.rows(
        "SELECT TABLE_NAME AS name, TABLE_COMMENT AS comment FROM information_schema.TABLES "  # noqa: S608
        f"WHERE TABLE_SCHEMA = {text_literal(table.database)} AND TABLE_COMMENT LIKE {text_literal(f'{_MARK}%')}"
    )
    found = [_read(table, str(row["comment"])) for row in rows]
    own = [twin for twin in found if twin is not None and twin.name in {str(row["name"]) for row in rows}]
    return sorted(own, key=lambda twin: twin.bound or ())


def twin_of(connection: Reading, table: PartitionedTable, partition: str) -> Twin | None:
    return next((twin for twin in twins_of(connection, table) if twin.partition == partition), None)


def _read(table: PartitionedTable, comment: str) -> Twin | None:
    """A twin by its comment; None if it is another table's, or a comment that a person wrote."""
    try:
        known = json.loads(unquote(comment.removeprefix(_MARK)))
    except ValueError:
        return None
    if not isinstance(known, dict) or known.get("table") != table.name:
        return None
    since = None if known["since"] is None else datetime.fromisoformat(known["since"])
    bound = None if known["bound"] is None else tuple(known["bound"])
    return Twin(table, known["partition"], bound, since, known["archived"])


def detach(connection: Altering, twin: Twin) -> None:
    """Swap a partition's rows into its twin, which is created first; continues where a killed run stopped."""
    if twin_of(connection, twin.table, twin.partition) is None:
        _remove_unfinished(connection, twin)
        connection.alter(f"CREATE TABLE {twin.sql_name} LIKE {twin.table.sql_name}")
        reach("sequence.created")
        connection.alter(f"ALTER TABLE {twin.sql_name} COMMENT = '{twin.comment}' REMOVE PARTITIONING")
    reach("sequence.prepared")
    if not twin.is_swapped(connection):
        connection.alter(_exchange(twin), most_seconds=ALTER_SECONDS)
    reach("sequence.exchanged")


def mark(connection: Altering, twin: Twin, since: datetime | None) -> Twin:
    """Record since when a partition is detached."""
    marked = replace(twin, since=since)
    connection.alter(f"ALTER TABLE {twin.sql_name} COMMENT = '{marked.comment}'")
    return marked


def attach(connection: Altering, twin: Twin) -> None:
    """Swap the rows back into the partition, and remove the twin; continues where a killed run stopped."""
    if not twin.is_attached:
        raise Conflict(
            f"{twin.table} no longer has partition {twin.partition} with its bound",
            f"Its rows are in table {twin.name} of the database.",
        )
    if twin.is_swapped(connection):
        if columns_of(connection, twin.name) != columns_of(connection, twin.table.name):
            raise Conflict(
                f"{twin.table} got other columns since partition {twin.partition} was detached",
                f"Alter table {twin.name} of the database in the same way, then run it again.",
            )
        mark(connection, twin, None)
        reach("sequence.unmarked")
        connection.alter_locked(
            (twin.table.sql_name, twin.sql_name), _exchange(twin), lambda locked: check_no_new_rows(locked, twin)
        )
    reach("sequence.attached")
    connection.alter_locked((twin.sql_name,), f"DROP TABLE {twin.sql_name}", lambda locked: _check_empty(locked, twin))


def drop(connection: Altering, twin: Twin, prove: Callable[[Reading], None]) -> None:
    """Remove a detached partition, and then its rows after a proof; continues where a killed run stopped."""
    if twin.is_attached:
        connection.alter_locked(
            (twin.table.sql_name,),
            f"ALTER TABLE {twin.table.sql_name} WAIT {LOCK_SECONDS} DROP PARTITION {identifier(twin.partition)}",
            lambda locked: check_no_new_rows(locked, twin),
        )
    reach("sequence.removed")
    connection.alter_locked((twin.sql_name,), f"DROP TABLE {twin.sql_name}", prove)


def check_no_new_rows(connection: Reading, twin: Twin) -> None:
    """Refuse if rows were written to a partition since it was detached."""
    if not is_empty(connection, twin.table, twin.partition):
        raise Conflict(
            f"partition {twin.partition} of {twin.table} got new rows since it was detached",
            f"Nothing was lost: the others are in table {twin.name}. Move the new ones, then run it again.",
        )


def _exchange(twin: Twin) -> str:
    table, partition = twin.table.sql_name, identifier(twin.partition)
    return f"ALTER TABLE {table} WAIT {LOCK_SECONDS} EXCHANGE PARTITION {partition} WITH TABLE {twin.sql_name}"


def _check_empty(connection: Reading, twin: Twin) -> None:
    if connection.rows(f"SELECT 1 FROM {twin.sql_name} LIMIT 1"):  # noqa: S608
        raise Conflict(f"table {twin.name} of the database has rows", "Nothing was dropped. Compare it yourself.")


def _remove_unfinished(connection: Altering, twin: Twin) -> None:
    """Remove what a run left that was killed between creating a twin and marking it: a partitioned table, no rows."""
    found = connection.rows(
        "SELECT CREATE_OPTIONS AS options FROM information_schema.TABLES "  # noqa: S608
        f"WHERE TABLE_SCHEMA = {text_literal(twin.table.database)} AND TABLE_NAME = {text_literal(twin.name)}"
    )
    if not found:
        return
    if "partitioned" not in str(found[0]["options"]):
        raise Conflict(f"the database has a table {twin.name} that is not Lakewarden's", "Rename it.")
    connection.alter_locked((twin.sql_name,), f"DROP TABLE {twin.sql_name}", lambda locked: _check_empty(locked, twin))
