"""Statistics of the rows of one side: mergeable, so that tasks make them of what they read.

Nulls, NaN, least and greatest values are exact over the rows that were read. Distinct values are estimated from the
smallest hashes (exact up to `DISTINCT`), and quantiles and drift are taken from a sample of rows (exact up to
`SAMPLED`). Which rows are sampled depends on their files and positions only, never on how work was shared out.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.engine.kernel.row_hash import spread

DISTINCT = 1 << 10
SAMPLED = 20_000
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass
class ColumnProfile:
    """What is known of one column."""

    nulls: int = 0
    nans: int = 0
    least: Any = None
    greatest: Any = None
    hashes: Any = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    """The smallest hashes of its values."""

    def see(self, array: Any, hashes: Any) -> None:
        self.nulls += array.null_count
        values = array.drop_null()
        if len(values) == 0:
            return
        if array.null_count:
            hashes = hashes[array.is_valid().to_numpy(zero_copy_only=False)]
        self._see_hashes(spread(hashes))
        if pa.types.is_floating(values.type):
            is_nan = pc.is_nan(values)
            self.nans += is_nan.true_count
            values = values.filter(pc.invert(is_nan)) if is_nan.true_count else values
        if is_ordered(values.type) and len(values):
            found = pc.min_max(values).as_py()
            self._see_bounds(found["min"], found["max"])

    def add(self, other: ColumnProfile) -> None:
        self.nulls += other.nulls
        self.nans += other.nans
        if other.least is not None:
            self._see_bounds(other.least, other.greatest)
        self._see_hashes(other.hashes)

    @property
    def distinct(self) -> int:
        """How many different values there are, nulls not among them; an estimate if there are many."""
        if len(self.hashes) < DISTINCT:
            return len(self.hashes)
        return round((DISTINCT - 1) / (float(self.hashes[-1]) / float(_ALL)))

    @property
    def is_distinct_exact(self) -> bool:
        return len(self.hashes) < DISTINCT

    def _see_bounds(self, least: Any, greatest: Any) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def _see_hashes(self, hashes: Any) -> None:
        if len(self.hashes) == DISTINCT:
            hashes = hashes[hashes < self.hashes[-1]]
        if len(hashes) and len(self.hashes):
            nearest = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            hashes = hashes[self.hashes[nearest] != hashes]
        if len(hashes):
            self.hashes = np.unique(np.concatenate((self.hashes, hashes)))[:DISTINCT]


class Profile:
    """Statistics of the rows that were seen."""

    def __init__(self, schema: Any, below: int | None = None) -> None:
        self.schema = schema
        self.rows = 0
        self.columns = [ColumnProfile() for _ in schema]
        self._samples: list[tuple[Any, Any]] = []
        self._sampled = 0
        self._limit = _ALL if below is None else np.uint64(below)

    def see(self, batch: Any, hashes: list[Any], priorities: Any) -> None:
        """Take in rows, with the hashes of each column's values and what decides on the sample."""
        self.rows += batch.num_rows
        for column, array, known in zip(self.columns, batch.columns, hashes, strict=True):
            column.see(array, known)
        self._see_sample(batch, priorities)

    def add(self, other: Profile) -> None:
        self.rows += other.rows
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            mine.add(theirs)
        self._take_sample(*other.sample_with_priorities())

    def to_plain(self) -> dict[str, Any]:
        sample, priorities = self.sample_with_priorities()
        columns = [vars(column) for column in self.columns]
        return {"rows": self.rows, "columns": columns, "sample": sample, "priorities": priorities}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Profile:
        found = cls(plain["sample"].schema)
        found.rows = plain["rows"]
        found.columns = [ColumnProfile(**column) for column in plain["columns"]]
        found._take_sample(plain["sample"], plain["priorities"])
        return found

    @property
    def sample(self) -> Any:
        """Up to `SAMPLED` of the rows, as a table."""
        return self.sample_with_priorities()[0]

    def sample_with_priorities(self) -> tuple[Any, Any]:
        self._shrink()
        if not self._samples:
            return self.schema.empty_table(), np.zeros(0, dtype=np.uint64)
        return pa.Table.from_batches([batch for batch, _ in self._samples]), np.concatenate(
            [priorities for _, priorities in self._samples]
        )

    def _take_sample(self, sample: Any, priorities: Any) -> None:
        for batch in sample.to_batches():
            self._see_sample(batch, priorities[: batch.num_rows])
            priorities = priorities[batch.num_rows :]

    def _see_sample(self, batch: Any, priorities: Any) -> None:
        chosen = np.flatnonzero(priorities < self._limit)
        if len(chosen):
            whole = len(chosen) == batch.num_rows
            self._samples.append((batch if whole else batch.take(pa.array(chosen)), priorities[chosen]))
            self._sampled += len(chosen)
        if self._sampled > 4 * SAMPLED:
            self._shrink()

    def _shrink(self) -> None:
        if self._sampled <= SAMPLED:
            return
        priorities = np.concatenate([each for _, each in self._samples])
        table = pa.Table.from_batches([batch for batch, _ in self._samples])
        chosen = np.sort(np.argpartition(priorities, SAMPLED)[:SAMPLED])
        kept = table.take(pa.array(chosen)).combine_chunks()
        self._limit = priorities[chosen].max() + np.uint64(1)
        self._samples = [(batch, priorities[chosen]) for batch in kept.to_batches()]
        self._sampled = SAMPLED


def sampled_below(rows: int) -> int:
    """The priority that a sample of so many rows need not reach, so that each task keeps no more than its share."""
    return int(_ALL) // max(rows, 4 * SAMPLED) * 4 * SAMPLED


def priorities(path: str, positions: Any) -> Any:
    """What decides which rows are sampled: the lowest."""
    seeded = positions.astype(np.int64) + (zlib.crc32(path.encode()) << 31)
    return spread(seeded.view(np.uint64))


def is_ordered(kind: Any) -> bool:
    """Whether values of a type have a least and a greatest."""
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return bool(is_text or types.is_boolean(kind) or is_measured(kind))


def is_measured(kind: Any) -> bool:
    """Whether values of a type are numbers or times, which have quantiles."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_number or types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind))
