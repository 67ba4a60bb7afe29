"""The rows of a database table wherever they are: in the archive, in detached partitions, and in the table itself.

What the database still has is read from there; the archive gives the partitions that it no longer has. A transaction
that has read the table keeps `EXCHANGE PARTITION` and `DROP PARTITION` waiting, so nothing moves while it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.base.table_name import Reference
from lakewarden.errors import Conflict
from lakewarden.features.sequence.archives import ArchiveTable, archive_name, iceberg_schema
from lakewarden.features.sequence.columns import PARTITION, columns_of, from_texts, select_in_hex
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import PartitionedTable, read_table
from lakewarden.features.sequence.twins import twins_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.config import SequenceSettings
    from lakewarden.lifecycle.ground import Reader

_ROWS_AT_ONCE = 10_000


@contextmanager
def everywhere(
    lake: Reader, sequences: SequenceSettings, name: str
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The schema of a table's rows, and the rows, each once."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with Reading(sequences) as connection:
        table = read_table(connection, name)
        connection.rows("START TRANSACTION")
        connection.rows(f"SELECT 1 FROM {table.sql_name} LIMIT 1")  # noqa: S608 - from here on, nothing moves
        table = read_table(connection, name)
        columns = columns_of(connection, name)
        schema = schema_to_pyarrow(iceberg_schema(columns), include_field_ids=False)
        yield schema, _batches(lake, sequences, connection, table, schema)


def _batches(
    lake: Reader,
    sequences: SequenceSettings,
    connection: Reading,
    table: PartitionedTable,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    twins = twins_of(connection, table)
    if lake.settings.lakes:
        archive = ArchiveTable(lake, archive_name(lake, sequences, table.name), str(table))
        there = {twin.partition for twin in twins}
        there |= {partition.name for partition in table.partitions if archive.copy_of(partition) is not None}
        renamed = archive.renamed(connection, table, there)
        if renamed:
            raise Conflict(
                f"{table} has rows of the range that {archive.name} has as partition {renamed}",
                "It was renamed or merged since it was archived. Give it its name and bound again.",
            )
        yield from _archived(lake, archive, set(archive.copies) - there, schema)
    for source in (*(twin.name for twin in twins), table.name):
        yield from _in_database(connection, source, table.columns[0], schema)


def _archived(lake: Reader, archive: ArchiveTable, partitions: set[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The archive's rows of partitions that the database no longer has; a column that it got later is NULL."""
    import pyarrow as pa
    from pyiceberg.expressions import In
    from pyiceberg.expressions import Reference as Term

    if not partitions:
        return
    held = [column.name for column in archive.columns(schema.names)]
    version = lake.tables.resolve(str(Reference(archive.name)))
    only = In(term=Term(PARTITION), literals=partitions)
    _, batches = lake.rows.batches(version, columns=held, only=only)
    for batch in batches:
        arrays = [
            batch[each.name].cast(each.type) if each.name in held else pa.nulls(batch.num_rows, each.type)
            for each in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_database(connection: Reading, name: str, leading: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a table in the database, in the order of its ids, some thousand at a time."""
    import pyarrow as pa

    at, after = identifier("stored", leading), ""  # the column: its text has the same name
    source = f"{identifier(connection.database, name)} AS stored"
    columns = columns_of(connection, name)
    while True:
        place = f"{f'WHERE {at} > {after} ' if after else ''}ORDER BY {at} LIMIT 1 OFFSET {_ROWS_AT_ONCE}"
        ends = connection.rows(f"SELECT {at} AS last FROM {source} {place}")  # noqa: S608
        bounds = [*([f"{at} > {after}"] if after else []), *([f"{at} <= {ends[0]['last']}"] if ends else [])]
        where = f"WHERE {' AND '.join(bounds)} " if bounds else ""
        rows = connection.rows(f"SELECT {select_in_hex(columns)} FROM {source} {where}ORDER BY {at}")  # noqa: S608
        if rows:
            arrays = [from_texts([row.get(each.name) for row in rows], each.type) for each in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if not ends:
            return
        after = str(ends[0]["last"])
