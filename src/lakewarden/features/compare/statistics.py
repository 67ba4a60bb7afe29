"""Statistics of a column on both sides, and how far they drifted apart.

Each side is made of the rows that only it has and of the rows that both share. Of both, a sample may have been read; a
sampled row then stands for several: every row has a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lakewarden.engine.kernel.profile import ColumnProfile, Profile, is_measured

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS = 10
_CATEGORIES = 50
_LEAST_SHARE = 1e-4  # a bin that is empty on one side would make PSI infinite


@dataclass(frozen=True)
class ColumnStatistics:
    """One column on one side."""

    rows: int
    nulls: int
    nans: int
    distinct: int
    min: Any = None
    max: Any = None
    quantiles: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Drift:
    """How far the values of a column drifted apart between the sides; None if a side has no values."""

    psi: float | None = None
    ks: float | None = None
    shares: list[tuple[str, float, float]] = field(default_factory=list)
    """For each bin or category its label and its share of the rows of both sides."""


@dataclass(frozen=True)
class SideSample:
    """The rows of a side that are known, as strata: profiles, and how many rows each of them stands for."""

    strata: Sequence[tuple[Profile, int]]

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.strata)

    def values(self, place: int) -> tuple[Any, Any]:
        """Sampled values of a column, as one array, and the weight of each."""
        arrays, weights = [], []
        for profile, rows in self.strata:
            column = profile.sample.column(place).combine_chunks()
            if len(column):
                arrays.append(column if not isinstance(column, pa.ChunkedArray) else pa.concat_arrays(column.chunks))
                weights.append(np.full(len(column), rows / len(column)))
        if not arrays:
            return None, np.zeros(0)
        return pa.concat_arrays(arrays), np.concatenate(weights)

    def statistics(self, place: int) -> ColumnStatistics:
        together = ColumnProfile()
        nulls = nans = 0.0
        for profile, rows in self.strata:
            together.add(profile.columns[place])
            if profile.rows:
                nulls += profile.columns[place].nulls * rows / profile.rows
                nans += profile.columns[place].nans * rows / profile.rows
        values, weights = self.values(place)
        return ColumnStatistics(
            rows=self.rows,
            nulls=round(nulls),
            nans=round(nans),
            distinct=min(together.distinct, self.rows - round(nulls)),
            min=together.least,
            max=together.greatest,
            quantiles=_quantiles(values, weights),
        )


def drift(before: SideSample, after: SideSample, place: int) -> Drift:
    """PSI over deciles of the first side or over categories, and for numbers and times Kolmogorov-Smirnov."""
    old, old_weights = before.values(place)
    new, new_weights = after.values(place)
    if old is None or new is None:
        return Drift()
    if is_measured(old.type):
        return _measured_drift(old, old_weights, new, new_weights)
    if pa.types.is_string(old.type) or pa.types.is_large_string(old.type) or pa.types.is_boolean(old.type):
        return _category_drift(old, old_weights, new, new_weights)
    return Drift()


def _quantiles(values: Any, weights: Any) -> dict[str, Any]:
    if values is None or not is_measured(values.type):
        return {}
    numbers, kept = _numbers(values)
    if not len(numbers):
        return {}
    order = np.argsort(numbers, kind="stable")
    reached = np.cumsum(weights[kept][order])
    found = {}
    for quantile in QUANTILES:
        at = min(int(np.searchsorted(reached, quantile * reached[-1])), len(order) - 1)
        found[f"{quantile:g}"] = values[int(np.flatnonzero(kept)[order[at]])].as_py()
    return found


def _measured_drift(old: Any, old_weights: Any, new: Any, new_weights: Any) -> Drift:
    (one, one_kept), (other, other_kept) = _numbers(old), _numbers(new)
    if not len(one) or not len(other):
        return Drift()
    one_weights, other_weights = old_weights[one_kept], new_weights[other_kept]
    order = np.argsort(one, kind="stable")
    reached = np.cumsum(one_weights[order])
    cuts = [
        one[order[min(int(np.searchsorted(reached, reached[-1] * n / _BINS)), len(order) - 1)]] for n in range(1, _BINS)
    ]
    edges = np.unique(cuts)
    shares = [
        np.bincount(np.searchsorted(edges, numbers, side="left"), weights=weights, minlength=len(edges) + 1)
        / weights.sum()
        for numbers, weights in ((one, one_weights), (other, other_weights))
    ]
    labels = [_label(old.type, edges, at) for at in range(len(edges) + 1)]
    points = np.unique(np.concatenate((one, other)))
    reach = [_reached(points, numbers, weights) for numbers, weights in ((one, one_weights), (other, other_weights))]
    ks = float(np.abs(reach[0] - reach[1]).max())
    return Drift(_psi(*shares), round(ks, 6), _labelled(labels, *shares))


def _reached(points: Any, numbers: Any, weights: Any) -> Any:
    order = np.argsort(numbers, kind="stable")
    running = np.concatenate(([0.0], np.cumsum(weights[order])))
    return running[np.searchsorted(numbers[order], points, side="right")] / running[-1]


def _category_drift(old: Any, old_weights: Any, new: Any, new_weights: Any) -> Drift:
    counts: list[dict[str, float]] = []
    for values, weights in ((old, old_weights), (new, new_weights)):
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        encoded = values.filter(values.is_valid()).dictionary_encode()
        sums = np.bincount(encoded.indices.to_numpy(), weights=weights[valid], minlength=len(encoded.dictionary))
        if not sums.sum():
            return Drift()
        counts.append(dict(zip(map(str, encoded.dictionary.to_pylist()), (sums / sums.sum()).tolist(), strict=True)))
    one, other = counts
    largest = sorted({*one, *other}, key=lambda name: (-max(one.get(name, 0), other.get(name, 0)), name))[:_CATEGORIES]
    shares = [np.array([side.get(name, 0.0) for name in largest]) for side in counts]
    rest = [max(0.0, 1.0 - float(share.sum())) for share in shares]
    labels = list(largest)
    if max(rest) > 1e-9:
        labels.append("all others")
        shares = [np.append(share, more) for share, more in zip(shares, rest, strict=True)]
    return Drift(_psi(*shares), None, _labelled(labels, *shares))


def _psi(one: Any, other: Any) -> float:
    before, after = (np.maximum(share, _LEAST_SHARE) for share in (one, other))
    return round(float(((after - before) * np.log(after / before)).sum()), 6)


def _labelled(labels: Sequence[str], one: Any, other: Any) -> list[tuple[str, float, float]]:
    return [
        (label, round(float(before), 6), round(float(after), 6))
        for label, before, after in zip(labels, one, other, strict=True)
    ]


def _label(kind: Any, edges: Any, at: int) -> str:
    def shown(edge: float) -> str:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return str(pa.scalar(int(edge), width).cast(kind).as_py())
        return f"{edge:g}"

    if not len(edges):
        return "all"
    if at == 0:
        return f"≤ {shown(edges[0])}"
    return f"> {shown(edges[-1])}" if at == len(edges) else f"≤ {shown(edges[at])}"


def _numbers(values: Any) -> tuple[Any, Any]:
    """Values as floating point numbers, without nulls and NaN; and which of them these are."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    kept = ~np.isnan(numbers)
    return numbers[kept], kept
