"""Matches differing rows by key: one removed and one added row with the same key are one changed row.

A key that occurs more than once on a side is ambiguous: its rows stay removed and added. Rows with a null in their
key are never matched. Values within a column's tolerance count as equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.engine.kernel.compare_messages import Compared
from lakewarden.engine.kernel.row_difference import runs
from lakewarden.engine.kernel.row_hash import combined, hash_column, is_null_in_any

CHANGES_KEPT = 1_000
IS_TO, FIRST, SECOND, NULL_KEY = "__is_to__", "__first__", "__second__", "__null_key__"
Pair = tuple[int, int]


@dataclass
class ColumnChanges:
    """How often a column's values differ in changed rows, and the changes that occur most."""

    count: int = 0
    pairs: dict[Pair, tuple[int, Any, Any]] = field(default_factory=dict)
    """By hash: how often, and both values."""
    is_cut: bool = False

    def add(self, other: ColumnChanges) -> None:
        self.count += other.count
        self.is_cut = self.is_cut or other.is_cut
        for known, (times, before, after) in other.pairs.items():
            self.pairs[known] = (self.pairs[known][0] + times if known in self.pairs else times, before, after)
        if len(self.pairs) > 2 * CHANGES_KEPT:
            self.is_cut = True
            self.pairs = dict(sorted(self.pairs.items(), key=lambda item: (-item[1][0], item[0]))[:CHANGES_KEPT])


@dataclass
class Tally:
    """What a comparison counts."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    within_tolerance: int = 0
    ambiguous_keys: int = 0
    null_keys: int = 0
    columns: dict[int, ColumnChanges] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    """For each kind, rows with what decides which are kept: the lowest."""

    def add(self, other: Tally, sample_size: int) -> None:
        for name in ("added", "removed", "changed", "within_tolerance", "ambiguous_keys", "null_keys"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for place, changes in other.columns.items():
            self.columns.setdefault(place, ColumnChanges()).add(changes)
        for kind, rows in other.samples.items():
            together = [*self.samples.get(kind, []), *rows]
            self.samples[kind] = sorted(together, key=lambda item: item[0])[:sample_size]


def keyed(batch: Any, is_to: Any, compared: Compared) -> tuple[Any, Any]:
    """Rows with what is needed to match them, and the hashes that they are exchanged by."""
    columns = [batch.column(place) for place in range(compared.width)]
    chosen = compared.key or range(compared.width)
    first, second = combined([hash_column(columns[place]) for place in chosen], batch.num_rows)
    names = [batch.schema.field(place).name for place in range(compared.width)]
    more = [pa.array(is_to), pa.array(first), pa.array(second), pa.array(is_null_in_any(batch, compared.key))]
    schema = pa.schema([batch.schema.field(name) for name in names])
    for name, array in zip((IS_TO, FIRST, SECOND, NULL_KEY), more, strict=True):
        schema = schema.append(pa.field(name, array.type))
    return pa.RecordBatch.from_arrays([*columns, *more], schema=schema), first


def paired(batches: Iterable[Any], compared: Compared) -> Iterator[Tally | Any]:
    """Match the rows of a bucket: their tally, and if all rows are wanted, these as batches."""
    pairing = _Pairing(pa.Table.from_batches(list(batches)).combine_chunks(), compared)
    yield pairing.tally()
    if compared.with_rows:
        yield from pairing.rows()


class _Pairing:
    def __init__(self, table: Any, compared: Compared) -> None:
        self._compared = compared
        self._values = table.select(range(compared.width))
        self._names: list[str] = self._values.schema.names
        self._is_to = table.column(IS_TO).to_numpy()
        self._first = table.column(FIRST).to_numpy()
        self._second = table.column(SECOND).to_numpy()
        self._is_null = table.column(NULL_KEY).to_numpy()
        self._before, self._after, self._single, self._ambiguous = self._matched()
        self._differing = self._different_columns()
        changed = np.zeros(len(self._before), dtype=bool)
        for differs in self._differing:
            changed |= differs
        self._changed = np.flatnonzero(changed)

    def tally(self) -> Tally:
        is_added = self._is_to[self._single]
        tally = Tally(
            added=int(is_added.sum()),
            removed=int((~is_added).sum()),
            changed=len(self._changed),
            within_tolerance=len(self._before) - len(self._changed),
            ambiguous_keys=self._ambiguous,
            null_keys=int(self._is_null.sum()),
        )
        for place, differs in enumerate(self._differing):
            if differs.any():
                tally.columns[place] = self._changes(place, np.flatnonzero(differs))
        tally.samples = {
            "added": self._sampled(self._single[is_added]),
            "removed": self._sampled(self._single[~is_added]),
            "changed": self._sampled_changes(),
        }
        return tally

    def rows(self) -> Iterator[Any]:
        """Every differing row: its kind, its key, and the values of both sides."""
        is_added = self._is_to[self._single]
        removed, added = self._single[~is_added], self._single[is_added]
        none = np.zeros(0, dtype=np.int64)
        for kind, before, after in (
            ("removed", removed, none),
            ("added", none, added),
            ("changed", self._before[self._changed], self._after[self._changed]),
        ):
            count = max(len(before), len(after))
            if count:
                yield from self._both_sides(kind, count, before, after).to_batches()

    def _both_sides(self, kind: str, count: int, before: Any, after: Any) -> Any:
        columns: list[Any] = [pa.repeat(kind, count)]
        for place in range(len(self._names)):
            column = self._values.column(place)
            old = column.take(pa.array(before)) if len(before) else pa.nulls(count, column.type)
            new = column.take(pa.array(after)) if len(after) else pa.nulls(count, column.type)
            columns += [new if len(after) else old] if place in self._compared.key else [old, new]
        return pa.table(columns, schema=row_schema(self._values.schema, self._compared.key))

    def _matched(self) -> tuple[Any, Any, Any, int]:
        """Rows that are matched, before and after, all others, and how many keys are ambiguous."""
        if not self._compared.key:
            none = np.zeros(0, dtype=np.int64)
            return none, none, np.arange(len(self._is_to)), 0
        keyed_rows = np.flatnonzero(~self._is_null)
        starts, order = runs(self._first[keyed_rows], self._second[keyed_rows])
        order = keyed_rows[order]
        sides = self._is_to[order].astype(np.int64)
        if not len(starts):
            return order, order, np.arange(len(self._is_to)), 0
        counts = np.diff(np.append(starts, len(order)))
        after = np.add.reduceat(sides, starts)
        before = counts - after
        is_pair = (before == 1) & (after == 1)
        at = starts[is_pair]
        one, other = order[at], order[at + 1]
        old, new = np.where(self._is_to[one], other, one), np.where(self._is_to[one], one, other)
        single = np.ones(len(self._is_to), dtype=bool)
        single[old] = single[new] = False
        return old, new, np.flatnonzero(single), int(((before > 1) | (after > 1)).sum())

    def _different_columns(self) -> list[Any]:
        found = []
        for place in range(len(self._names)):
            if place in self._compared.key or not len(self._before):
                found.append(np.zeros(len(self._before), dtype=bool))
                continue
            column = self._values.column(place)
            old, new = column.take(pa.array(self._before)), column.take(pa.array(self._after))
            one, other = hash_column(old), hash_column(new)
            differs = (one[0] != other[0]) | (one[1] != other[1])
            if place in self._compared.tolerances:
                differs &= ~_within(old, new, self._compared.tolerances[place])
            found.append(differs)
        return found

    def _changes(self, place: int, rows: Any) -> ColumnChanges:
        column = self._values.column(place)
        old, new = column.take(pa.array(self._before[rows])), column.take(pa.array(self._after[rows]))
        first, second = combined([hash_column(old), hash_column(new)], len(rows))
        starts, order = runs(first, second)
        counts = np.diff(np.append(starts, len(order)))
        most = np.argsort(-counts, kind="stable")[:CHANGES_KEPT]
        at = order[starts[most]]
        before, after = old.take(pa.array(at)).to_pylist(), new.take(pa.array(at)).to_pylist()
        hashes = zip(first[at].tolist(), second[at].tolist(), strict=True)
        values = zip(hashes, counts[most].tolist(), before, after, strict=True)
        pairs = {known: (times, one, other) for known, times, one, other in values}
        return ColumnChanges(len(rows), pairs, is_cut=len(starts) > CHANGES_KEPT)

    def _sampled(self, rows: Any) -> list[tuple[int, dict[str, Any]]]:
        chosen = self._lowest(rows)
        ordered = [*self._compared.key, *(p for p in range(len(self._names)) if p not in self._compared.key)]
        values = self._values.select(ordered).take(pa.array(chosen)).to_pylist()
        return list(zip(self._first[chosen].tolist(), values, strict=True))

    def _sampled_changes(self) -> list[tuple[int, dict[str, Any]]]:
        hashes = self._first[self._before[self._changed]]
        chosen = self._changed[np.argsort(hashes, kind="stable")[: self._compared.sample_size]]
        found = []
        for pair in chosen.tolist():
            old, new = int(self._before[pair]), int(self._after[pair])
            key = {self._names[place]: self._value(place, new) for place in self._compared.key}
            changes = {
                name: {"from": self._value(place, old), "to": self._value(place, new)}
                for place, name in enumerate(self._names)
                if self._differing[place][pair]
            }
            found.append((int(self._first[old]), {"key": key, "changes": changes}))
        return found

    def _lowest(self, rows: Any) -> Any:
        return rows[np.argsort(self._first[rows], kind="stable")[: self._compared.sample_size]]

    def _value(self, place: int, row: int) -> Any:
        return self._values.column(place)[row].as_py()


def row_schema(values: Any, key: Sequence[int]) -> Any:
    """The columns of differing rows: the kind, each key column once, any other once for each side."""
    fields = [pa.field("kind", pa.string())]
    for place, each in enumerate(values):
        names = [each.name] if place in key else [f"{each.name}_from", f"{each.name}_to"]
        fields += [pa.field(name, each.type) for name in names]
    return pa.schema(fields)


def _within(old: Any, new: Any, tolerance: Decimal) -> Any:
    """Which pairs of numbers differ by no more than this. Decimals are exact, others up to what rounding leaves."""
    if pa.types.is_decimal(old.type):
        wide = pa.decimal256(76, old.type.scale)
        apart = pc.abs(pc.subtract(old.cast(wide), new.cast(wide)))
        return pc.less_equal(apart, pa.scalar(tolerance)).fill_null(False).to_numpy(zero_copy_only=False)
    one, other = (pc.cast(each, pa.float64()).to_numpy(zero_copy_only=False) for each in (old, new))
    with np.errstate(invalid="ignore"):
        rounding = 4 * np.finfo(np.float64).eps * np.maximum(np.abs(one), np.abs(other))
        return np.abs(one - other) <= float(tolerance) + rounding
