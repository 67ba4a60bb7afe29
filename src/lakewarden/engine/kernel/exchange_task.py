"""Sorts new rows out by a number, such as that of their batch, and writes the rows of each number to Parquet files.

    spread:  rows of a query, in any order ──▶ one file per task, with a slice for every number it has met
    gather:  the slices of a number, of all those files ──▶ new data files

Rows travel as Arrow through files in the table's storage. Through Spark's shuffle they would travel one by one, which
takes longer than everything else. Problems with files are returned in the report, as by `task.py`. Errors of the query
are Spark's own.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.engine.kernel.memory import Budget, peak_bytes, plain_allocation
from lakewarden.engine.kernel.messages import Access, Failure, GroupReport, Layout, RewriteFault
from lakewarden.engine.kernel.schema import Projection, leaves
from lakewarden.engine.kernel.storage import TaskStorage, fault
from lakewarden.engine.kernel.task import parts as rewrite_parts
from lakewarden.engine.kernel.task import summed
from lakewarden.engine.kernel.worker import settle
from lakewarden.engine.kernel.writing import DictionaryVotes, Outputs, naming

MOST_NUMBERS = 1 << 15
_SHARE = 8  # buffered rows take this part of a task's memory: they are there three times while they are sorted
_SAMPLE, _TELLING = 1 << 14, 1 << 10  # rows that determine encodings, and how many of them do so for other pieces too


def parts() -> list[ModuleType]:
    """The modules that are sent to executors by value."""
    return [*rewrite_parts(), sys.modules[__name__]]


@dataclass(frozen=True)
class Slice:
    """Rows with one number, in one place of a file."""

    number: int
    path: str
    start: int
    bytes: int
    rows: int


@dataclass(frozen=True)
class Spread:
    """What one task has written."""

    slices: tuple[Slice, ...] = ()
    schema: bytes = b""
    """Of the rows, without their numbers; empty if there were none."""
    failure: Failure | None = None

    def to_json(self) -> str:
        path = self.slices[0].path if self.slices else ""
        slices = [(each.number, each.start, each.bytes, each.rows) for each in self.slices]
        failure = vars(self.failure) if self.failure else None
        schema = base64.b64encode(self.schema).decode()
        return json.dumps({"path": path, "slices": slices, "schema": schema, "failure": failure})

    @classmethod
    def from_json(cls, text: str) -> Spread:
        given = json.loads(text)
        slices = (Slice(number, given["path"], *place) for number, *place in given["slices"])
        failure = Failure(**given["failure"]) if given["failure"] else None
        return cls(tuple(slices), base64.b64decode(given["schema"]), failure)


@dataclass(frozen=True)
class Piece:
    """Rows with one number that become files of their own: all of them, unless they are very many."""

    number: int
    slices: tuple[Slice, ...]

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.slices)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.slices)


def spread(folder: str, memory_bytes: int, access: Access) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What `mapInArrow` runs over rows whose last column is their number: a `Spread` from each task."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        settle()
        with plain_allocation():
            spill = _Spill(TaskStorage(access), f"{folder}/{uuid.uuid4().hex}.arrow", memory_bytes // _SHARE)
            try:
                for batch in batches:
                    spill.add(batch)
                spill.close()
            except RewriteFault as error:
                spill.abandon()
                failure = Failure(error.kind, error.message, error.file)
                yield pa.RecordBatch.from_pydict({"report": [Spread(failure=failure).to_json()]})
                return
            except BaseException:
                spill.abandon()
                raise
            yield pa.RecordBatch.from_pydict({"report": [spill.report().to_json()]})

    return task


class _Spill:
    """The file of one task: buffered rows are sorted by their numbers and appended, as one slice for each."""

    def __init__(self, storage: TaskStorage, path: str, most_bytes: int) -> None:
        self._storage, self._path, self._most_bytes = storage, path, most_bytes
        self._pending: list[Any] = []
        self._bytes = 0
        self._sink: Any = None
        self._schema: Any = None
        self._slices: list[Slice] = []

    def add(self, batch: Any) -> None:
        self._pending.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._most_bytes:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._sink is not None:
            with naming(self._path):
                self._sink.close()

    def abandon(self) -> None:
        self._pending = []
        if self._sink is not None:
            with suppress(Exception):  # an object store has the file only now
                self._sink.close()
            self._storage.remove(self._path)

    def report(self) -> Spread:
        return Spread(tuple(self._slices), b"" if self._schema is None else bytes(self._schema.serialize()))

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._pending) if self._pending else None
        self._pending, self._bytes = [], 0
        if rows is None or not rows.num_rows:
            return
        for batch in rows.combine_chunks().to_batches():
            self._append(batch)

    def _append(self, batch: Any) -> None:
        numbers = batch.column(batch.num_columns - 1).to_numpy()
        if numbers.min() < 0 or numbers.max() >= MOST_NUMBERS:
            raise ValueError(f"rows are numbered from 0 to {MOST_NUMBERS - 1}")
        numbers = numbers.astype(np.int16)  # sorted faster than larger ones
        batch = batch.select(list(range(batch.num_columns - 1))).take(pa.array(np.argsort(numbers, kind="stable")))
        self._schema = batch.schema
        start = 0
        with naming(self._path):
            if self._sink is None:
                self._sink = self._storage.create(self._path)
            for number, rows in enumerate(np.bincount(numbers).tolist()):
                if rows:
                    at = self._sink.tell()
                    self._sink.write(batch.slice(start, rows).serialize())
                    self._slices.append(Slice(number, self._path, at, self._sink.tell() - at, rows))
                    start += rows


def packed(pieces: Sequence[Piece]) -> str:
    """Pieces as a text, for `gather`."""
    paths = {path: place for place, path in enumerate({each.path: None for piece in pieces for each in piece.slices})}
    content = [
        (piece.number, [(paths[each.path], each.start, each.bytes, each.rows) for each in piece.slices])
        for piece in pieces
    ]
    return json.dumps([list(paths), content])


def _unpacked(text: str) -> list[Piece]:
    paths, content = json.loads(text)
    return [Piece(n, tuple(Slice(n, paths[path], *place) for path, *place in slices)) for n, slices in content]


def gather(schema: bytes, folder: str, layout: Layout, access: Access) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What `mapInArrow` runs over rows with `packed` pieces: a `GroupReport` of each piece."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        settle()
        for batch in batches:
            for pieces in batch.column(0).to_pylist():
                with plain_allocation():
                    gathering = _Gathering(schema, folder, layout, TaskStorage(access))
                    reports = [gathering.report(piece).to_json() for piece in _unpacked(pieces)]
                yield pa.RecordBatch.from_pydict({"report": reports})

    return task


class _Gathering:
    """Writes the data files of pieces, one after another."""

    def __init__(self, schema: bytes, folder: str, layout: Layout, storage: TaskStorage) -> None:
        assert layout.schema is not None
        self._schema, self._target = (pa.ipc.read_schema(pa.py_buffer(each)) for each in (schema, layout.schema))
        self._projection = Projection(self._schema, self._target, by_name=True)
        self._folder, self._layout, self._storage = folder, layout, storage
        self._budget = Budget.within(layout.memory_bytes)
        self._votes: DictionaryVotes | None = None
        self._at = ""

    def report(self, piece: Piece) -> GroupReport:
        """Write a piece. Never raises for problems with files or storage; the report has them."""
        started = time.monotonic()
        outputs = Outputs(self._storage, f"{self._folder}/{piece.number:05d}", self._layout, self._budget)
        try:
            self._write(piece, outputs)
        except Exception as error:  # noqa: BLE001 - any error goes into the report
            outputs.abandon()
            found = fault(error, self._at)
            return GroupReport(piece.number, failure=Failure(found.kind, found.message, found.file))
        except BaseException:
            outputs.abandon()
            raise
        return GroupReport(
            number=piece.number,
            outputs=tuple(outputs.done),
            rows_in=piece.rows,
            rows_out=sum(output.rows for output in outputs.done),
            nulls=summed(output.nulls for output in outputs.done),
            seconds=round(time.monotonic() - started, 3),
            peak_bytes=peak_bytes(),
        )

    def _write(self, piece: Piece, outputs: Outputs) -> None:
        rows = self._rows(piece)
        first = [] if self._votes else self._first(rows)
        sampled = sum(batch.num_rows for batch in first)
        votes = self._votes or _votes(self._target, pa.Table.from_batches(first))
        if sampled >= _TELLING:
            self._votes = votes
        outputs.begin(self._target, votes)
        while first:
            outputs.add(first.pop(0))
        for batch in rows:
            outputs.add(batch)
        outputs.end()

    def _first(self, rows: Iterator[Any]) -> list[Any]:
        """As many batches as a sample needs and memory allows."""
        first: list[Any] = []
        taken = size = 0
        for batch in rows:
            first.append(batch)
            taken, size = taken + batch.num_rows, size + batch.nbytes
            if taken >= _SAMPLE or size >= self._budget.batch:
                break
        return first

    def _rows(self, piece: Piece) -> Iterator[Any]:
        """The rows of a piece as the target's columns, slice by slice."""
        for each in piece.slices:
            self._at = each.path
            with self._storage.open(each.path) as file:
                file.seek(each.start)
                content = file.read_buffer(each.bytes)
            batch = pa.ipc.read_record_batch(content, self._schema)
            if batch.num_rows != each.rows:
                raise RewriteFault("rows", f"has {batch.num_rows} rows where {each.rows} were written", each.path)
            yield self._projection.apply(batch)


def _votes(target: Any, rows: Any) -> DictionaryVotes:
    """A dictionary for columns in which at most every second value is new, and for nested ones unseen."""
    votes = DictionaryVotes()
    for leaf in leaves(target):
        place = rows.schema.get_field_index(leaf.path)  # -1 within lists and structs
        sample = None if place < 0 else rows.column(place).slice(0, _SAMPLE)
        is_new = sample is not None and 2 * pc.count_distinct(sample).as_py() > len(sample)
        votes.add(leaf, -1 if is_new else 1)
    return votes
