"""The rewrite task: copies inputs, without masked and dropped rows, into new files.

Spark's executors run `run_task`; `rewrite` does the same for one group in this process. Problems with a file are
returned in the report and name the file: an exception on an executor would be retried four times and buried in a stack
trace. Sending the modules of `parts` by value, checking reports and publishing is up to callers.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.engine.kernel.deletes import Droppings, Masks, Wanted, read_masks
from lakewarden.engine.kernel.memory import Budget, peak_bytes, plain_allocation
from lakewarden.engine.kernel.messages import (
    Access,
    Failure,
    Group,
    GroupReport,
    Input,
    Layout,
    RewriteFault,
)
from lakewarden.engine.kernel.reading import ParquetInput, Widths
from lakewarden.engine.kernel.schema import Projection, own_target, require_field_ids
from lakewarden.engine.kernel.storage import TaskStorage, fault
from lakewarden.engine.kernel.worker import settle
from lakewarden.engine.kernel.writing import DictionaryVotes, Outputs

REPORT_SCHEMA = "report string"
_VOTERS = 32  # inputs whose footers determine encodings, spread over the group
_PARTS = ("messages", "checksum", "deletes", "memory", "reading", "schema", "storage", "task", "worker", "writing")


def parts() -> list[ModuleType]:
    """The modules that are sent to executors by value."""
    return [sys.modules[f"lakewarden.engine.kernel.{part}"] for part in _PARTS]


def run_task(groups: Sequence[Group], layout: Layout, access: Access) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What `mapInArrow` runs over `spark.range(0, len(groups), 1, len(groups))`: reports as `REPORT_SCHEMA`."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        settle()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                report = rewrite(groups[number], layout, access)
                yield pa.RecordBatch.from_pydict({"report": [report.to_json()]})

    return task


def rewrite(group: Group, layout: Layout, access: Access, wanted: Sequence[Wanted] | None = None) -> GroupReport:
    """Rewrite one group. Never raises for problems with files or storage; the report has them.

    `wanted` are the group's drops, if they were unpacked already for several groups.
    """
    with plain_allocation():
        drops = [Wanted(drop) for drop in group.drops] if wanted is None else wanted
        return _rewrite(_Rewriting(group, layout, access, drops))


def _rewrite(rewriting: _Rewriting) -> GroupReport:
    try:
        rewriting.run()
    except Exception as error:  # noqa: BLE001 - any error goes into the report
        rewriting.abandon()
        found = fault(error, rewriting.at)
        return rewriting.report(Failure(found.kind, found.message, found.file))
    except BaseException:
        rewriting.abandon()
        raise
    return rewriting.report()


def pack(values: Any) -> bytes:
    """Encode an Arrow array for a `Drop`."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([values], ["values"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


class _Rewriting:
    def __init__(self, group: Group, layout: Layout, access: Access, drops: Sequence[Wanted]) -> None:
        self._started = time.monotonic()
        self._group, self._layout = group, layout
        self._storage = TaskStorage(access)
        self._budget = Budget.within(layout.memory_bytes)
        self._outputs = Outputs(self._storage, f"{group.folder.rstrip('/')}/{group.number:05d}", layout, self._budget)
        self._target = None if layout.schema is None else pa.ipc.read_schema(pa.py_buffer(layout.schema))
        self._dropping = Droppings(drops) if drops else None
        self._dropped: dict[str, list[int]] = {}
        self._fingerprints: dict[str, str] = {}
        self._widths = Widths()
        self._rows_in = self._rows_masked = self._rows_dropped = 0
        self.at = ""  # the current file

    def run(self) -> None:
        masks = read_masks(self._storage, self._group.inputs)
        self._budget.release()
        if self._target is not None:
            self._outputs.begin(self._target, self._votes())
        for input_ in self._group.inputs:
            self.at = input_.path
            with ParquetInput(self._storage, input_.path, self._budget, self._widths) as file:
                self._copy(input_, file, masks)
        self._outputs.end()
        self._check_rows()
        if self._layout.fingerprint:
            for path in [*(input_.path for input_ in self._group.inputs), *(out.path for out in self._outputs.done)]:
                self.at = path
                self._fingerprints[path] = self._storage.fingerprint(path)

    def abandon(self) -> None:
        self._outputs.abandon()

    def report(self, failure: Failure | None = None) -> GroupReport:
        done = self._outputs.done
        written, found = zip(*self._outputs.checksums, strict=True) if self._outputs.checksums else ((), ())
        is_full = self._layout.verify == "full" and failure is None
        return GroupReport(
            number=self._group.number,
            outputs=tuple(done),
            rows_in=self._rows_in,
            rows_masked=self._rows_masked,
            rows_dropped=self._rows_dropped,
            rows_out=sum(output.rows for output in done),
            nulls=summed(output.nulls for output in done) if failure is None else {},
            checksum_in=_together(written) if is_full else None,
            checksum_out=_together(found) if is_full else None,
            dropped=self._dropped if failure is None else {},
            fingerprints=self._fingerprints if failure is None else {},
            failure=failure,
            seconds=round(time.monotonic() - self._started, 3),
            peak_bytes=peak_bytes(),
        )

    def _votes(self) -> DictionaryVotes:
        votes = DictionaryVotes()
        inputs = self._group.inputs
        for input_ in inputs[:: max(1, len(inputs) // _VOTERS)]:
            self.at = input_.path
            with self._storage.open(input_.path) as file:
                votes.count(pq.read_metadata(file))
        return votes

    def _copy(self, input_: Input, file: ParquetInput, masks: Masks) -> None:
        _same_rows(file.rows, input_)
        columns, projection = self._plan(file)
        if self._target is None:
            self._begin_alone(input_, file)
        position = 0
        for batch in file.batches(columns, self._outputs.room, projection.added_width):
            kept = self._kept(batch, masks.masked(input_.path, position, batch.num_rows), position)
            position += batch.num_rows
            if kept is None:
                self._outputs.add(projection.apply(batch))
            elif kept.true_count:
                self._outputs.add(projection.apply(batch).filter(kept))
        _same_rows(position, input_)
        self._rows_in += position
        if self._target is None:
            self._outputs.end()

    def _plan(self, file: ParquetInput) -> tuple[list[int], Projection]:
        """The columns to read, and their projection onto the target schema."""
        by_name = self._target is None
        if not by_name or self._dropping is not None:
            require_field_ids(file.schema)
        target = _own_target(file) if self._target is None else self._target
        moved, constants = dict(self._layout.moved), dict(self._layout.constants)
        needed = Projection(file.schema, target, by_name, moved, constants).needed
        if self._dropping is not None:
            needed |= self._dropping.needs(file.schema)
        columns = sorted(needed)
        read = pa.schema([file.schema.field(index) for index in columns])
        if self._dropping is not None:
            self._dropping.look_at(read)
        read = read if len(columns) < len(file.schema) else file.schema
        return columns, Projection(read, target, by_name, moved, constants)

    def _begin_alone(self, input_: Input, file: ParquetInput) -> None:
        votes = DictionaryVotes()
        votes.count(file.metadata)
        self._outputs.begin(_own_target(file), votes, input_.path)

    def _kept(self, batch: Any, masked: Any | None, position: int) -> Any | None:
        """A bit for each row, set if it stays; None if all stay."""
        kept = None if masked is None else pc.invert(masked)
        self._rows_masked += 0 if masked is None else masked.true_count
        dropped = None if self._dropping is None else self._dropping.dropped(batch)
        if dropped is None or not dropped.true_count:
            return kept
        if kept is not None:
            dropped = pc.and_(dropped, kept)
        self._rows_dropped += dropped.true_count
        places = pc.indices_nonzero(dropped).to_pylist()
        self._dropped.setdefault(self.at, []).extend(position + place for place in places)
        return pc.invert(dropped) if kept is None else pc.and_not(kept, dropped)

    def _check_rows(self) -> None:
        out = sum(output.rows for output in self._outputs.done)
        expected = self._rows_in - self._rows_masked - self._rows_dropped
        if out != expected:
            raise RewriteFault("defect", f"{out} rows were written instead of {expected}", self._group.folder)


def _own_target(file: ParquetInput) -> Any:
    columns = (file.metadata.schema.column(index) for index in range(file.metadata.num_columns))
    return own_target(file.schema, {column.path for column in columns if column.physical_type == "INT96"})


def _same_rows(found: int, input_: Input) -> None:
    if found != input_.rows:
        raise RewriteFault("rows", f"has {found} rows, but the table's metadata says {input_.rows}", input_.path)


def summed(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    """Counts by field id, added up."""
    total: dict[int, int] = {}
    for some in counts:
        for field_id, count in some.items():
            total[field_id] = total.get(field_id, 0) + count
    return total


def _together(digests: Iterable[str]) -> str:
    return hashlib.blake2b("".join(digests).encode(), digest_size=16).hexdigest()
