"""The stages of a comparison, as functions over what is exchanged between them.

    hashed ──bucket of the hash──▶ settled ──part──▶ fetched ──bucket of the key──▶ paired

With row lineage, the first two stages run twice: first over row ids, then over the values of the rows that are left.
If only the rows that the second side has more of are wanted, `taking` takes the place of the last two.

Each stage yields items: batches with the bucket they go to, and reports, which pass through all later stages. A
fault is a report too: raised on an executor, it would be retried and buried in a stack trace. How items travel, in
this process or through Spark's shuffle, is up to the caller.
"""

from __future__ import annotations

import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from lakewarden.engine.kernel.compare_messages import SIDES, Compared, Counted, Part, Side
from lakewarden.engine.kernel.compared_files import ComparedFiles, Seen
from lakewarden.engine.kernel.messages import Failure
from lakewarden.engine.kernel.profile import Profile, priorities
from lakewarden.engine.kernel.row_difference import HashedRows, in_buckets, repeated, settled
from lakewarden.engine.kernel.row_hash import combined, hash_column, is_null_in_any, spread
from lakewarden.engine.kernel.row_pairs import ColumnChanges, Tally, keyed, paired
from lakewarden.engine.kernel.spark_values import as_spark_rows
from lakewarden.engine.kernel.storage import fault
from lakewarden.engine.kernel.task import parts as rewrite_parts
from lakewarden.engine.kernel.worker import settle

_PARTS = (
    "compare_messages",
    "compare_task",
    "compared_files",
    "profile",
    "row_difference",
    "row_hash",
    "row_pairs",
    "spark_values",
    "vectors",
)
ITEM_SCHEMA = "bucket int, is_report boolean, content binary"
Item = tuple[int, Any]
"""A bucket and a batch."""


@dataclass
class Report:
    """What a task has counted, sampled or failed with."""

    counted: Counted = field(default_factory=Counted)
    profiles: dict[str, Profile] = field(default_factory=dict)
    """Of rows that only one side has, by its name, and under `shared` of rows in files that both have."""
    tally: Tally = field(default_factory=Tally)
    rows: Any = None
    """Differing rows, if all of them are wanted."""
    failure: Failure | None = None

    def add(self, other: Report, sample_size: int) -> None:
        self.counted.add(other.counted)
        self.tally.add(other.tally, sample_size)
        for name, profile in other.profiles.items():
            if name in self.profiles:
                self.profiles[name].add(profile)
            else:
                self.profiles[name] = profile
        self.failure = self.failure or other.failure

    def to_bytes(self) -> bytes:
        """As plain values: where tasks run, no class of Lakewarden can be imported by its name."""
        tally = {**vars(self.tally), "columns": {at: vars(each) for at, each in self.tally.columns.items()}}
        profiles = {name: profile.to_plain() for name, profile in self.profiles.items()}
        failure = None if self.failure is None else vars(self.failure)
        return pickle.dumps((vars(self.counted), profiles, tally, self.rows, failure))

    @classmethod
    def from_bytes(cls, content: bytes) -> Report:
        counted, profiles, tally, rows, failure = pickle.loads(content)
        tally["columns"] = {at: ColumnChanges(**each) for at, each in tally["columns"].items()}
        return cls(
            Counted(**counted),
            {name: Profile.from_plain(profile) for name, profile in profiles.items()},
            Tally(**tally),
            rows,
            None if failure is None else Failure(**failure),
        )


Stage = Callable[[Iterable[Item]], Iterator[Item | Report]]


def modules() -> list[ModuleType]:
    """Every module that must travel by value."""
    return [*rewrite_parts(), *(sys.modules[f"lakewarden.engine.kernel.{part}"] for part in _PARTS)]


def hashed(parts: Sequence[Part], compared: Compared) -> Iterator[Item | Report]:
    """Read parts: their differing rows by hash, and a report of what was read."""
    return _guarded(_Hashing(compared).run(parts))


def settling(compared: Compared) -> Stage:
    """The stage that finds rows without an equal on the other side."""

    def settle(items: Iterable[Item]) -> Iterator[Item]:
        batches = [batch for _, batch in items]
        if batches:
            yield from settled(batches, compared.part_buckets)

    return lambda items: _guarded(settle(items))


def fetching(parts: Sequence[Part], compared: Compared) -> Stage:
    """The stage that reads the values of rows, and exchanges them by key."""

    def fetch(items: Iterable[Item]) -> Iterator[Item]:
        batches = [batch for _, batch in items]
        if not batches:
            return
        files = ComparedFiles(compared)
        for number, positions, is_to in _by_part(batches):
            for batch, chosen in files.fetch(parts[number], positions):
                rows, hashes = keyed(batch, is_to[chosen], compared)
                yield from in_buckets(rows, hashes, compared.key_buckets)

    return lambda items: _guarded(fetch(items))


def taking(parts: Sequence[Part], compared: Compared) -> Stage:
    """The stage that reads the rows that only the `to` side has, and counts those that only the other has."""

    def take(items: Iterable[Item]) -> Iterator[Item | Report]:
        batches = [batch for _, batch in items]
        files = ComparedFiles(compared)
        for number, positions, is_to in _by_part(batches) if batches else ():
            yield Report(tally=Tally(removed=int((~is_to).sum())))
            if is_to.any():
                yield from ((0, batch) for batch, _ in files.fetch(parts[number], positions[is_to]))

    return lambda items: _guarded(take(items))


def hashing(parts: Sequence[Part], compared: Compared) -> Stage:
    """The stage that hashes the values of rows whose lineage has no equal on the other side."""

    def run(items: Iterable[Item]) -> Iterator[Item | Report]:
        batches = [batch for _, batch in items]
        files, hashed = ComparedFiles(compared), HashedRows(compared.hash_buckets)
        for number, positions, is_to in _by_part(batches) if batches else ():
            for batch, chosen in files.fetch(parts[number], positions, is_filtered=True):
                columns = [hash_column(batch.column(place)) for place in range(compared.width)]
                lanes = combined(columns, batch.num_rows)
                yield from hashed.add(lanes, number, positions[chosen], is_to[chosen])
        yield from hashed.rest()
        yield Report(Counted(bytes=files.bytes_fetched))

    return lambda items: _guarded(run(items))


def _by_part(batches: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Rows of each part: its number, rising positions, and whether each row is of the `to` side."""
    table = pa.Table.from_batches(batches)
    numbers, positions, is_to = (table.column(name).to_numpy() for name in ("part", "position", "is_to"))
    order = np.lexsort((positions, numbers))
    numbers, positions, is_to = numbers[order], positions[order], is_to[order]
    for number in np.unique(numbers).tolist():
        first, last = np.searchsorted(numbers, (number, number + 1))
        yield number, positions[first:last], is_to[first:last]


def pairing(compared: Compared) -> Stage:
    """The stage that matches rows by key."""

    def pair(items: Iterable[Item]) -> Iterator[Report]:
        batches = [batch for _, batch in items]
        if batches:
            for found in paired(batches, compared):
                yield Report(tally=found) if isinstance(found, Tally) else Report(rows=found)

    return lambda items: _guarded(pair(items))


def counting_keys(items: Iterable[Item]) -> Iterator[Item | Report]:
    """How many keys of a bucket occur more than once, on each side."""

    def count() -> Iterator[Report]:
        batches = [batch for _, batch in items]
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        counted = Counted()
        for side in SIDES:
            rows = table.filter(table.column(side))
            counted.duplicate_keys[side] = repeated([rows.column(name).to_numpy() for name in ("first", "second")])
        yield Report(counted)

    return _guarded(count())


def _guarded(items: Iterator[Item | Report]) -> Iterator[Item | Report]:
    try:
        yield from items
    except Exception as error:  # noqa: BLE001 - whatever it is, the report has it
        found = fault(error, "")
        yield Report(failure=Failure(found.kind, found.message, found.file))


class _Hashing:
    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self._files = ComparedFiles(compared)
        self._hashed = HashedRows(compared.hash_buckets)
        self._report = Report()

    def run(self, parts: Sequence[Part]) -> Iterator[Item | Report]:
        counted = self._report.counted
        by_lineage, rest = [], list(parts)
        if self._compared.by_lineage:
            by_lineage = [part for part in parts if part.purpose == "compare"]
            rest = [part for part in parts if part.purpose != "compare"]
        for part, positions, is_to, ids, updated in self._files.lineage(by_lineage):
            lanes = spread(ids.view(np.uint64)), updated.view(np.uint64)
            yield from self._hashed.add(lanes, part.number, positions, is_to)
        for seen in self._seen(rest):
            match seen.part.purpose:
                case "count":
                    for side in SIDES:
                        counted.rows[side] += int(seen.visible[side].sum())
                case "compare":
                    yield from self._compare(seen)
                case "profile":
                    self._profile(seen)
                case "keys":
                    yield from self._keys(seen)
        yield from self._hashed.rest()
        counted.files += len(parts)
        counted.bytes += sum(part.bytes for part in rest)
        yield self._report

    def _seen(self, parts: Sequence[Part]) -> Iterator[Seen]:
        """Rows of both sides in turns: files that hold the same rows mostly have them in the same order."""
        streams = deque(
            self._files.read([part for part in parts if tuple(part.deletes) == sides])
            for sides in dict.fromkeys(tuple(part.deletes) for part in parts)
        )
        while streams:
            stream = streams.popleft()
            for seen in stream:
                yield seen
                streams.append(stream)
                break

    def _compare(self, seen: Seen) -> Iterator[Item]:
        rows = seen.differing
        if not len(rows):
            return
        columns = self._columns(seen, rows)
        lanes = combined([hash_column(column) for column in columns.columns], len(rows))
        yield from self._hashed.add(lanes, seen.part.number, rows + seen.start, seen.visible["to"][rows])

    def _profile(self, seen: Seen) -> None:
        old, new = seen.visible["from"], seen.visible["to"]
        rows = np.flatnonzero(old | new)
        columns = self._columns(seen, rows)
        hashes = [hash_column(column) for column in columns.columns]
        for name, chosen in (("shared", old & new), ("from", old & ~new), ("to", new & ~old)):
            self._take_in(name, seen, columns, hashes, rows, chosen[rows])

    def _take_in(self, name: str, seen: Seen, columns: Any, hashes: Sequence[Any], rows: Any, chosen: Any) -> None:
        if not chosen.any():
            return
        whole = bool(chosen.all())
        batch = columns if whole else columns.filter(pa.array(chosen))
        known = [lanes[0] if whole else lanes[0][chosen] for lanes in hashes]
        profile = self._report.profiles.setdefault(
            name, Profile(columns.schema, self._compared.sampled_below.get(name))
        )
        profile.see(batch, known, priorities(seen.part.path, rows[chosen] + seen.start))

    def _columns(self, seen: Seen, rows: Any) -> Any:
        """The compared columns of some rows."""
        batch = seen.batch.select(list(range(self._compared.width)))
        return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))

    def _keys(self, seen: Seen) -> Iterator[Item]:
        names = self._compared.columns("keys")
        key = [names.index(place) for place in self._compared.key]
        null = is_null_in_any(seen.batch, key)
        first, second = combined([hash_column(seen.batch.column(place)) for place in key], seen.batch.num_rows)
        sides: dict[Side, Any] = {side: seen.visible[side] & ~null for side in SIDES}
        for side in SIDES:
            self._report.counted.null_keys[side] += int((seen.visible[side] & null).sum())
        rows = np.flatnonzero(sides["from"] | sides["to"])
        arrays = [first[rows], second[rows], *(sides[side][rows] for side in SIDES)]
        batch = pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], ["first", "second", *SIDES])
        yield from in_buckets(batch, first[rows], self._compared.hash_buckets)


def packed(items: Iterable[Item | Report]) -> Iterator[Any]:
    """Items as rows of `ITEM_SCHEMA`."""
    for item in items:
        if isinstance(item, Report):
            yield _item_row(0, True, item.to_bytes())
        else:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, item[1].schema) as stream:
                stream.write_batch(item[1])
            yield _item_row(item[0], False, sink.getvalue().to_pybytes())


def reading(groups: Sequence[Sequence[Part]], compared: Compared) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The first stage as `mapInArrow` runs it over the numbers of groups of parts."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        settle()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from packed(hashed(groups[number], compared))

    return run


def over_rows(stage: Stage, sample_size: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A stage as `mapInArrow` runs it: items come and go as rows; reports pass through, put together."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        settle()
        whole: Report | None = None

        def items() -> Iterator[Item]:
            nonlocal whole
            for batch in batches:
                rows = (batch.column(name).to_pylist() for name in ("bucket", "is_report", "content"))
                for bucket, is_report, content in zip(*rows, strict=True):
                    if is_report:
                        whole = whole or Report()
                        whole.add(Report.from_bytes(content), sample_size)
                    else:
                        with pa.ipc.open_stream(content) as stream:
                            yield from ((bucket, each) for each in stream)

        yield from packed(stage(items()))
        if whole is not None:
            yield from packed([whole])

    return run


def as_rows(stage: Stage | None, schema: bytes) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A last stage as `mapInArrow` runs it, whose rows are those of a DataFrame; a fault fails the task.

    Without a stage, the items are the rows already.
    """

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        settle()
        wanted = pa.ipc.read_schema(pa.py_buffer(schema))
        items = _without_reports(_unpacked(batches))
        for _, rows in items if stage is None else _without_reports(stage(items)):
            yield as_spark_rows(rows, wanted)

    return run


def _unpacked(batches: Iterable[Any]) -> Iterator[Item | Report]:
    for batch in batches:
        for is_report, content in zip(batch.column("is_report").to_pylist(), batch.column("content"), strict=True):
            if is_report:
                yield Report.from_bytes(content.as_py())
            else:
                with pa.ipc.open_stream(content.as_buffer()) as stream:
                    yield from ((0, each) for each in stream)


def _without_reports(items: Iterable[Item | Report]) -> Iterator[Item]:
    for item in items:
        if not isinstance(item, Report):
            yield item
        elif item.failure is not None:
            raise RuntimeError(f"{item.failure.file}: {item.failure.message}")


def _item_row(bucket: int, is_report: bool, content: bytes) -> Any:
    columns = [pa.array([bucket], pa.int32()), pa.array([is_report]), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["bucket", "is_report", "content"])
