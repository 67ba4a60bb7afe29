"""Copies one partition of a database table into its archive.

Spark reads the rows in several ranges at once and stages them. They are published only if the database and the staged
files have the same checksums, by one commit that says which partition it is. So a partition is archived once, and
never in part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.engine.spark.database_rows import DatabaseRows
from lakewarden.errors import Conflict, SparkUnavailable, StalePlan, UnfitDatabase
from lakewarden.features.sequence.archives import ArchiveTable
from lakewarden.features.sequence.checksums import Checksums, in_database
from lakewarden.features.sequence.columns import PARTITION, Column, columns_of, select
from lakewarden.features.sequence.connection import LOCKED, SESSION_VARIABLES, Reading, patiently
from lakewarden.features.sequence.partitions import Partition, PartitionedTable
from lakewarden.features.sequence.pieces import pieces
from lakewarden.features.sequence.session import SqlError
from lakewarden.features.sequence.stamps import Copied
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

    from lakewarden.config import DatabaseAddress, SequenceSettings
    from lakewarden.engine.commit.staging import StagedRows
    from lakewarden.lifecycle.ground import Writer

_ROWS_OF_A_PART = 25_000
"""Each part is a statement of its own, short enough for `maintain` to get its turn."""
_PARTS_OF_A_TASK, _MOST_TASKS = 10, 64
"""Each task writes a file."""
_AT = "lakewarden_at"
_LOCKED = "Lock wait timeout exceeded"


def copy(
    lake: Writer, sequences: SequenceSettings, archive: ArchiveTable, table: PartitionedTable, name: str
) -> Copied:
    """Copy a partition, in place of an earlier copy if there is one; returns its stamp."""
    address = address_of(sequences)
    partition = next((each for each in table.partitions if each.name == name), None)
    if partition is None:
        raise StalePlan(
            f"the plan is stale: {table} no longer has partition {name}", "Nothing was written. Plan again."
        )
    with Reading(sequences) as connection:
        columns = columns_of(connection, table.name)
        archive.check(columns)
        before = archive.stamps.get(name)
        archive.prepare(lake, columns)
        reach("sequence.archive_ready")
        there = in_database(connection, partition_rows(table, partition), table.columns, columns)
        ranges = pieces(connection, partition_rows(table, partition), table.columns[0], _ROWS_OF_A_PART)
        parts = [piece.condition(_AT) for piece in ranges]
    if before is not None and before.copied.rows and not there.rows:
        raise Conflict(
            f"partition {name} of {table} no longer has rows, and its copy has {before.copied.rows:,}",
            "The copy was not replaced.",
        )
    replaced = archive.files_of(name, lake.tables.load(archive.name))
    earlier = archive.checksums(name, table.columns, columns)
    if before is None and earlier.rows and there.differences(earlier):
        raise Conflict(
            f"{archive.name} has {earlier.rows:,} rows of partition {name}, and no record that they were archived",
            "Nothing was written. Find out where they come from; name another table, or remove them from the archive.",
        )
    compare_by = () if before is None and not earlier.rows else table.columns
    replaces = before.copied.and_earlier(earlier) if before is not None else ()
    bounds = table.lower_bound(partition), partition.bound
    stamp = Copied(name, *bounds, there.rows, there.sums, compare_by, replaced=replaces)
    check, facts = archive.unmoved(name, before, replaced), {archive.key(name): stamp.text}
    staged = _stage(lake, address, archive, table, partition, columns, parts) if there.rows else None
    reach("sequence.staged")
    check(lake.tables.load(archive.name))
    here = (
        archive.checksums(name, table.columns, columns, staged.branch) - earlier if staged else Checksums(0, there.sums)
    )
    differs = there.differences(here)
    if differs:
        raise Conflict(
            f"partition {name} of {table} changed while it was copied: {differs}",
            "Nothing was published. Run it again; archive only partitions that are no longer written to.",
        )
    _publish(lake, archive, staged, facts, check, replaced)
    reach("sequence.published")
    return stamp


def address_of(sequences: SequenceSettings) -> DatabaseAddress:
    """Where Spark finds the database: the command line client keeps that to itself."""
    if sequences.address is None:
        raise UnfitDatabase("partitions can be archived only through dburl", "Spark needs it to read the rows.")
    return sequences.address


def partition_rows(table: PartitionedTable, partition: Partition) -> str:
    """What follows FROM to read one partition."""
    return f"{table.sql_name} PARTITION ({identifier(partition.name)})"


def _stage(
    lake: Writer,
    address: DatabaseAddress,
    archive: ArchiveTable,
    table: PartitionedTable,
    partition: Partition,
    columns: Sequence[Column],
    parts: list[str],
) -> StagedRows:
    at = identifier(table.columns[0])
    rows = DatabaseRows(
        host=address.host,
        port=address.port,
        database=address.database,
        user=address.user,
        password=address.password,
        select=f"SELECT {select(columns)}, {at} AS {_AT} FROM {partition_rows(table, partition)}",  # noqa: S608
        parts=parts,
        tasks=min(_MOST_TASKS, -(-len(parts) // _PARTS_OF_A_TASK)),
        variables=SESSION_VARIABLES,
        values=[column.from_text for column in columns],
        constants={PARTITION: partition.name},
    )

    def attempt() -> StagedRows:
        try:
            return lake.staging.stage(str(archive.name), lake.database_rows(rows), in_order=True)
        except SparkUnavailable as error:
            if _LOCKED in f"{error} {error.__cause__}":
                raise SqlError(LOCKED, _LOCKED) from error
            raise

    return patiently(attempt)


def _publish(
    lake: Writer,
    archive: ArchiveTable,
    staged: StagedRows | None,
    facts: dict[str, str],
    check: Callable[[Table], None],
    replaced: Mapping[str, frozenset[str]],
) -> None:
    name, uuid = str(archive.name), str(lake.tables.load(archive.name).metadata.table_uuid)
    change = Append(name, uuid, staged=staged, facts=facts, check=check)
    if replaced:
        change = Overwrite(name, uuid, staged=staged, facts=facts, check=check, removed=replaced)
    lake.commits.publish(change)
