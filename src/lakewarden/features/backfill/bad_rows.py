"""Rows that the SQL of a backfill fails on: found by halving a batch, named in an error, or put aside in a table.

Only their checkpoint tuples and the kind of the error are kept, never the rows: the table is called like the target,
with `__bad_rows`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.commit.created_table import CreateTable
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.engine.sql.sorted_column import Range
from lakewarden.errors import LakewardenError, TableNotFound
from lakewarden.features.backfill.trouble import Trouble, trouble
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.sql.batches import Reading
    from lakewarden.features.backfill.registration import Backfill
    from lakewarden.lifecycle.ground import Reader, Writer

SUFFIX = "__bad_rows"
NAMED = 5
"""So many are named in an error."""
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


@dataclass(frozen=True)
class BadRow:
    """The rows with one checkpoint tuple, as JSON, and what was wrong."""

    checkpoint: str
    error: str
    rows: int = 1


def find(lake: Writer, reading: Reading, ranges: list[Range], target: tuple[str, ...], most: int) -> list[BadRow]:
    """The tuples that the SQL fails on, up to so many rows; each is found by halving."""
    found: list[BadRow] = []
    waiting = ranges[::-1]
    while waiting and sum(each.rows for each in found) < most:
        each = waiting.pop()
        problem = _problem(lake, reading, each, target)
        if problem is None:
            continue
        halves = lake.batches.ranges(reading, each.lower, max(1, each.rows // 2), each.upper)
        if len(halves) > 1:
            waiting += halves[::-1]
        elif each.upper is not None:
            found.append(BadRow(reading.columns.dump(each.upper), problem, each.rows))
        lake.progress(0, 1, "rows that fail are being searched for")
    return found


def _problem(lake: Writer, reading: Reading, each: Range, target: tuple[str, ...]) -> str | None:
    """What is wrong with a row of a range, without its values; None if nothing is."""
    try:
        lake.batches.evaluate(reading, each, target)
    except LakewardenError as error:
        if trouble(error) is not Trouble.DATA:
            raise
        condition = _CONDITION.search(f"{error.__cause__ or error}")
        return condition[1] if condition else type(error.__cause__ or error).__name__
    return None


def refusal(backfill: Backfill, found: list[BadRow], more: bool) -> LakewardenError:
    """The error that names rows."""
    columns = ", ".join(backfill.files.meta.checkpoint_columns)
    named = "; ".join(f"{each.checkpoint} ({each.error}, {counted(each.rows, 'row')})" for each in found[:NAMED])
    others = " and maybe more" if more else ""
    return LakewardenError(
        f"backfill {backfill.id}: its SQL fails on rows with {columns} = {named}{others}",
        "Correct the SQL or the rows, or set on_bad_rows: quarantine.",
    )


def put_aside(lake: Reader, backfill: Backfill, run: int) -> list[BadRow]:
    """The bad rows that a run has found so far."""
    own = [row for row in of_backfill(lake, table_name(lake, backfill), backfill.id) if row["run"] == run]
    return [BadRow(row["checkpoint"], row["error"], row["rows"]) for row in own]


def of_backfill(lake: Reader, name: str, backfill: str) -> list[dict[str, Any]]:
    """All rows of a backfill in a table of bad rows."""
    return [row for row in _all(lake, name) if row["backfill"] == backfill]


def _all(lake: Reader, name: str) -> list[dict[str, Any]]:
    try:
        table = lake.tables.load(name)
    except TableNotFound:
        return []
    return [] if table.current_snapshot() is None else list(table.scan().to_arrow().to_pylist())


def forget(lake: Writer, name: str, backfill: str) -> int:
    """Remove the rows of a backfill from a table of bad rows; the rows of others are written again."""
    table, rows = lake.tables.load(name), _all(lake, name)
    others = [row for row in rows if row["backfill"] != backfill]
    live = lake.files.of(table, table.current_snapshot()).data
    change = Overwrite(
        name,
        str(table.metadata.table_uuid),
        _files(table, others) if others else (),
        removed={file.path: file.deletes_identity for file in live},
    )
    lake.commits.publish(change)
    return len(rows) - len(others)


def put(lake: Writer, backfill: Backfill, run: int, batch: int, found: list[BadRow]) -> None:
    """Add bad rows to the table, once."""
    known = {each.checkpoint for each in put_aside(lake, backfill, run)}
    new = [each for each in found if each.checkpoint not in known]
    if not new:
        return
    table = _table(lake, backfill)
    rows = [{"backfill": backfill.id, "run": run, "batch": batch, "at": lake.clock(), **asdict(each)} for each in new]
    change = Append(table_name(lake, backfill), str(table.metadata.table_uuid), _files(table, rows))
    lake.part(f"bad-{backfill.id}-{run}-{batch}-{len(known)}").commits.publish(change)


def _files(table: Table, rows: list[dict[str, Any]]) -> tuple[AddedFile, ...]:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import _dataframe_to_data_files, schema_to_pyarrow

    made = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema(), include_field_ids=False))
    files = _dataframe_to_data_files(table.metadata, made, table.io)
    return tuple(AddedFile(file, table.metadata.default_spec_id) for file in files)


def _table(lake: Writer, backfill: Backfill) -> Table:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

    name = table_name(lake, backfill)
    try:
        return lake.tables.load(name)
    except TableNotFound:
        texts = {"backfill": 1, "checkpoint": 4, "error": 5}
        fields = [NestedField(id, column, StringType()) for column, id in texts.items()]
        fields += [NestedField(2, "run", IntegerType()), NestedField(3, "batch", IntegerType())]
        fields += [NestedField(6, "at", TimestamptzType()), NestedField(7, "rows", LongType())]
        schema = Schema(*sorted(fields, key=lambda field: field.field_id))
        lake.part("bad-rows").commits.publish(CreateTable(name, schema=schema))
        return lake.tables.load(name)


def table_name(lake: Reader, backfill: Backfill) -> str:
    return f"{backfill.target(lake)}{SUFFIX}"
