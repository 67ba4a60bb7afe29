"""The multiset difference of two sides: which rows occur more often on one side than on the other.

Rows are known by their 128-bit hashes and exchanged by bucket, so that equal rows meet. A row is named by the part
that has it and its position there. Of rows that are equal any will do, but it is always the same, in whatever order
they arrive: if Spark computes a bucket again, tasks that were done and those to come must not choose different ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

U64 = np.uint64
_POSITION_BITS = 40
_AT_A_TIME = 1 << 18  # rows that are held back: those with an equal among them need not be exchanged
_COLUMNS = ("first", "second", "row", "is_to")


class HashedRows:
    """Collects hashes of rows, and gives out those without an equal on the other side, bucket by bucket."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._held: list[tuple[Any, Any, Any, Any]] = []
        self._count = 0

    def add(self, lanes: tuple[Any, Any], part: int, positions: Any, is_to: Any) -> Iterator[tuple[int, Any]]:
        rows = positions.astype(np.int64) | (part << _POSITION_BITS)
        self._held.append((lanes[0], lanes[1], rows, is_to))
        self._count += len(rows)
        if self._count >= _AT_A_TIME:
            self._settle()
            if self._count >= _AT_A_TIME // 2:
                yield from self.rest()

    def rest(self) -> Iterator[tuple[int, Any]]:
        self._settle()
        if self._held:
            (columns,) = self._held
            self._held, self._count = [], 0
            batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], list(_COLUMNS))
            yield from in_buckets(batch, columns[0], self._buckets)

    def _settle(self) -> None:
        """Leave out rows that have an equal on the other side."""
        if not self._held:
            return
        first, second, rows, is_to = (np.concatenate(each) for each in zip(*self._held, strict=True))
        if is_to.any() and not is_to.all():
            chosen = unmatched(first, second, is_to, rows)
            first, second, rows, is_to = first[chosen], second[chosen], rows[chosen], is_to[chosen]
        self._held, self._count = [(first, second, rows, is_to)], len(rows)


def in_buckets(batch: Any, hashes: Any, buckets: int) -> Iterator[tuple[int, Any]]:
    """Split a batch by the hash of its rows; rows with the same hash go into the same bucket."""
    yield from _split(
        batch, ((hashes >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.uint16), buckets
    )


def _split(batch: Any, numbers: Any, buckets: int) -> Iterator[tuple[int, Any]]:
    if buckets == 1:
        if batch.num_rows:
            yield 0, batch
        return
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=buckets))
    ordered = batch.take(pa.array(order))
    start = 0
    for number, end in enumerate(ends.tolist()):
        if end > start:
            yield number, ordered.slice(start, end - start)
        start = end


def settled(batches: Iterable[Any], part_buckets: int) -> Iterator[tuple[int, Any]]:
    """The rows of a bucket that have no equal on the other side: their parts, positions and sides."""
    table = pa.Table.from_batches(list(batches))
    first, second, rows, is_to = (table.column(name).to_numpy() for name in _COLUMNS)
    chosen = unmatched(first, second, is_to, rows)
    yield from _by_part(rows[chosen], is_to[chosen], part_buckets)


def unmatched(first: Any, second: Any, is_to: Any, rows: Any) -> Any:
    """The places of rows that have no equal on the other side; of equal ones, those that `rows` numbers lowest."""
    starts, order = runs(first, second)
    sides = is_to[order]
    net = np.add.reduceat(np.where(sides, 1, -1), starts) if len(starts) else np.zeros(0, dtype=np.int64)
    left = np.flatnonzero(net)  # few, as a rule
    counts = np.append(starts, len(order))[left + 1] - starts[left]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.repeat(starts[left], counts) + within
    net_of_row, run_of_row = np.repeat(net[left], counts), np.repeat(left, counts)
    more = sides[places] == (net_of_row > 0)
    places, net_of_row, run_of_row = places[more], net_of_row[more], run_of_row[more]
    rank = np.arange(len(places)) - np.searchsorted(run_of_row, run_of_row)
    is_left = rank < np.abs(net_of_row)
    if not is_left.all():
        places = places[np.lexsort((rows[order[places]], run_of_row))]
    return order[places[is_left]]


def runs(first: Any, second: Any) -> tuple[Any, Any]:
    """Where runs of equal hashes begin, in an order that puts equal ones side by side; and that order."""
    bits = U64(max(len(first) - 1, 1).bit_length())
    numbered = first >> bits << bits  # numbers in the place of the lowest bits: sorting is far quicker than argsort
    numbered |= np.arange(len(first), dtype=U64)
    numbered.sort()
    order = (numbered & ((U64(1) << bits) - U64(1))).astype(np.int64)
    near = numbered[1:] >> bits == numbered[:-1] >> bits
    sorted_first, sorted_second = first[order], second[order]
    same = (sorted_first[1:] == sorted_first[:-1]) & (sorted_second[1:] == sorted_second[:-1])
    if (near & ~same).any():  # hardly ever: only a part of a hash is the same
        order = np.lexsort((second, first))
        sorted_first, sorted_second = first[order], second[order]
        same = (sorted_first[1:] == sorted_first[:-1]) & (sorted_second[1:] == sorted_second[:-1])
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = ~same
    return np.flatnonzero(is_new), order


def repeated(lanes: Sequence[Any]) -> int:
    """How many of the hashes occur more than once."""
    starts, order = runs(lanes[0], lanes[1])
    return int((np.diff(np.append(starts, len(order))) > 1).sum())


def _by_part(rows: Any, sides: Any, buckets: int) -> Iterator[tuple[int, Any]]:
    """Rows as a part and a position there, in buckets of parts."""
    parts, positions = rows >> _POSITION_BITS, rows & ((1 << _POSITION_BITS) - 1)
    columns = [pa.array(parts), pa.array(positions), pa.array(sides)]
    batch = pa.RecordBatch.from_arrays(columns, ["part", "position", "is_to"])
    yield from _split(batch, (parts % buckets).astype(np.uint16), buckets)
