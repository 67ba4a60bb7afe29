"""The rows of a database table wherever they are: in the archive, in detached partitions, and in the table itself.

What the database still has is read from there; the archive gives the partitions that it no longer has. Rows are read
piece by piece, and each piece only counts if nothing was moved since the first one. So `maintain` need not wait.
Rows that erasure requests of the archive hide are left out, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.base.table_name import Reference
from lakewarden.engine.catalog.tables import Resolved, find_snapshot
from lakewarden.errors import Conflict
from lakewarden.features.sequence.archives import ArchiveTable, archive_name, iceberg_schema
from lakewarden.features.sequence.columns import PARTITION, columns_of, from_texts, select_in_hex
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.hidden import Hidden
from lakewarden.features.sequence.intention import split
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, position_of, read_table
from lakewarden.features.sequence.pieces import pieces
from lakewarden.features.sequence.twins import twins_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.config import SequenceSettings
    from lakewarden.lifecycle.ground import Reader

_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Places:
    """Where rows are: the full partitions, and the detached ones with whether their rows are there already."""

    full: frozenset[Partition]
    twins: tuple[tuple[str, bool], ...]


@contextmanager
def everywhere(
    lake: Reader, sequences: SequenceSettings, name: str
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The schema of a table's rows, and the rows, each once."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with Reading(sequences) as connection:
        columns = columns_of(connection, name)
        schema = schema_to_pyarrow(iceberg_schema(columns), include_field_ids=False)
        yield schema, _batches(lake, sequences, connection, read_table(connection, name), schema)


def _batches(
    lake: Reader,
    sequences: SequenceSettings,
    connection: Reading,
    table: PartitionedTable,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    position, twins = position_of(connection, table), twins_of(connection, table)
    places = _places(connection, table, frozenset(split(table, position).filled if position else ()))
    hidden = Hidden()
    if lake.settings.lakes:
        archive = ArchiveTable(lake, archive_name(lake, sequences, table.name), str(table))
        there = archive.also_in(table, twins)
        _check(connection, archive, table, there)
        hidden = Hidden.of(lake, archive, schema)
        yield from _archived(lake, archive, archive.everything(table).keys() - there, schema)
    for source in (*(twin.name for twin in twins), table.name):
        yield from map(hidden.left_out, _in_database(connection, source, table, places, schema))


def _check(connection: Reading, archive: ArchiveTable, table: PartitionedTable, there: set[str]) -> None:
    """Refuse if rows would be missing, or shown twice."""
    lost = sorted(archive.lost - there)
    if lost:
        raise Conflict(
            f"{archive.name} no longer has the rows that were archived of {table}, partition {', '.join(lost)}",
            "Others rolled it back, or removed or changed the rows, and the database no longer has them. Roll the "
            f"archive forward again: lakewarden version list shows its versions. {archive.how_to_forget(lost)}",
        )
    renamed = archive.renamed(connection, table, there)
    if renamed:
        raise Conflict(
            f"{table} has rows of the range that {archive.name} has as partition {renamed}",
            "It was renamed or merged since it was archived. Give it its name and bound again.",
        )


def _places(connection: Reading, table: PartitionedTable, full: frozenset[Partition]) -> Places:
    """Where rows are now, by the partitions that were full at first."""
    twins = tuple((twin.name, twin.is_swapped(connection)) for twin in twins_of(connection, table))
    return Places(full & set(table.partitions), twins)


def _archived(lake: Reader, archive: ArchiveTable, partitions: set[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The archive's rows of partitions that the database no longer has; a column that it got later is NULL."""
    import pyarrow as pa
    from pyiceberg.expressions import In
    from pyiceberg.expressions import Reference as Term

    if not partitions or archive.iceberg is None:
        return
    held = [column.name for column in archive.columns(schema.names)]
    reference = Reference(archive.name)
    version = Resolved(reference, archive.iceberg, find_snapshot(archive.iceberg, reference))
    only = In(term=Term(PARTITION), literals=partitions)
    _, batches = lake.rows.batches(version, columns=held, only=only)
    for batch in batches:
        arrays = [
            batch[each.name].cast(each.type) if each.name in held else pa.nulls(batch.num_rows, each.type)
            for each in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_database(
    connection: Reading, name: str, table: PartitionedTable, places: Places, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a table in the database, in the order of its ids, some thousand at a time."""
    import pyarrow as pa

    source, columns = identifier(connection.database, name), columns_of(connection, name)
    at = identifier(connection.database, name, table.columns[0])  # the column: its text has the same name
    for piece in pieces(connection, source, table.columns[0], _ROWS_AT_ONCE):
        where = piece.condition(at)
        connection.rows("START TRANSACTION")  # keeps what it has read in its place until it ends
        rows = connection.rows(
            f"SELECT {select_in_hex(columns)} FROM {source} WHERE {where} ORDER BY {at}"  # noqa: S608
        )
        now = _places(connection, read_table(connection, table.name), places.full)
        connection.rows("COMMIT")
        if now != places:
            raise Conflict(f"partitions of {table} were moved while its rows were read", "Read it again.")
        if rows:
            arrays = [from_texts([row.get(each.name) for row in rows], each.type) for each in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
