"""Writes the rows that a Spark query gives, divided by the number of their range: each file holds rows of one range.

Rows are not sorted or exchanged between tasks: every task writes a file for each range it meets. Rows are collected
within a memory limit, divided, and written as one row group per range. Checking the reports and publishing the files is
up to callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.engine.kernel.memory import Budget, plain_allocation
from lakewarden.engine.kernel.messages import Access, Failure, GroupReport, Layout, RewriteFault
from lakewarden.engine.kernel.schema import leaves
from lakewarden.engine.kernel.storage import TaskStorage, fault
from lakewarden.engine.kernel.writing import DictionaryVotes, Outputs

REPORT_SCHEMA = "report string"
_SAMPLE = 1 << 16
_REPEATED = 2  # a dictionary pays if values occur at least this often


def run_division(folder: str, layout: Layout, access: Access) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What `mapInArrow` runs over rows whose last column is the number of their range."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        for report in divide(batches, folder, layout, access):
            yield pa.RecordBatch.from_pydict({"report": [report.to_json()]})

    return task


def divide(batches: Iterable[Any], folder: str, layout: Layout, access: Access) -> Iterator[GroupReport]:
    """Write the rows; a report for each range. Errors of the query itself are raised, those of writing reported."""
    with plain_allocation():
        dividing = _Dividing(folder, layout, access)
        try:
            for batch in batches:
                dividing.add(batch)
            yield from dividing.end()
        except RewriteFault as error:
            dividing.abandon()
            yield GroupReport(-1, failure=Failure(error.kind, error.message, error.file))
        except BaseException:
            dividing.abandon()
            raise


class _Dividing:
    def __init__(self, folder: str, layout: Layout, access: Access) -> None:
        self._folder, self._layout = folder.rstrip("/"), layout
        self._storage = TaskStorage(access)
        self._budget = Budget.within(layout.memory_bytes)
        self._schema = pa.ipc.read_schema(pa.py_buffer(layout.schema))
        self._votes: DictionaryVotes | None = None
        self._pending: list[Any] = []
        self._bytes = 0
        self._rows: dict[int, int] = {}
        self._outputs: dict[int, Outputs] = {}

    def add(self, batch: Any) -> None:
        if batch.num_rows:
            self._pending.append(batch)
            self._bytes += batch.nbytes
            if self._bytes >= self._budget.row_group:
                self._flush()

    def end(self) -> Iterator[GroupReport]:
        self._flush()
        for number, outputs in sorted(self._outputs.items()):
            outputs.end()
            written = sum(output.rows for output in outputs.done)
            yield GroupReport(number, tuple(outputs.done), rows_in=self._rows[number], rows_out=written)

    def abandon(self) -> None:
        for outputs in self._outputs.values():
            outputs.abandon()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        self._pending, self._bytes = [], 0
        last = table.num_columns - 1
        order = pc.sort_indices(table.column(last))
        table = table.take(order)
        numbers = table.column(last)
        rows = self._as_written(table.drop_columns([table.column_names[last]]))
        counts = pc.value_counts(numbers)
        start = 0
        for number, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
            self._write(int(number), rows.slice(start, count))
            start += count
        self._budget.release()

    def _as_written(self, table: Any) -> Any:
        try:
            rows = table.rename_columns(self._schema.names).cast(self._schema)
        except (pa.ArrowException, ValueError) as error:
            raise RewriteFault("schema", str(error).splitlines()[0]) from error
        if self._votes is None:
            self._votes = _votes(rows, self._schema)
        return rows

    def _write(self, number: int, rows: Any) -> None:
        if number not in self._outputs:
            outputs = Outputs(self._storage, f"{self._folder}/{number:05d}", self._layout, self._budget)
            assert self._votes is not None
            outputs.begin(self._schema, self._votes)
            self._outputs[number] = outputs
        self._rows[number] = self._rows.get(number, 0) + rows.num_rows
        try:
            for batch in rows.to_batches():
                self._outputs[number].add(batch)
            self._outputs[number].flush()
        except (pa.ArrowException, OSError) as error:
            raise fault(error, self._folder) from error


def _votes(rows: Any, schema: Any) -> DictionaryVotes:
    """Columns whose values repeat get a dictionary, by the first rows."""
    votes = DictionaryVotes()
    sample = rows.slice(0, _SAMPLE)
    for leaf in leaves(schema):
        place = schema.get_field_index(leaf.path)  # -1 within lists and structs
        if place >= 0:
            repeats = pc.count_distinct(sample.column(place)).as_py() * _REPEATED <= sample.num_rows
            votes.add(leaf, sample.num_rows if repeats else -sample.num_rows)
    return votes
