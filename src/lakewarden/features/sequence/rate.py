"""How fast a table fills: a robust regression of positions over time, with an interval.

Newer observations weigh more. Dates in names of partitions are predictions that were made earlier: they may all be
early or late by the same time, so named and exact observations have lines of their own, with a common slope. Once
exact ones span a day, names have no weight at all. Nor has an observation that is out of order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from statistics import median

DAY = timedelta(days=1)
_EXACT_HALF_LIFE, _NAMED_HALF_LIFE = 1.5, 4.0  # in periods: names are vague, so more of them are needed
_ROUNDS = 10
_MOST = 150
_CUTOFF = 4.685  # of Tukey's biweight
_MAD = 1.4826
_QUANTILE = 2.576  # 99 %
_EXACT_ERROR_DAYS = 0.5  # rows do not arrive evenly over a day and a week
_NAME_ERROR_IN_PERIODS = 0.1


@dataclass(frozen=True)
class Observation:
    """A table was at a position at a time."""

    at: datetime
    position: int
    is_exact: bool = True
    """Whether the time was looked up or recorded; otherwise it comes from a name."""
    resolution: timedelta = timedelta()
    """The span that a name stands for, as a day or a month."""


@dataclass(frozen=True)
class Rate:
    """Ids per day: the estimate, and an interval that contains the truth with high confidence."""

    per_day: float
    low: float
    high: float

    @property
    def is_growing(self) -> bool:
        return self.per_day > 0


@dataclass(frozen=True)
class _Point:
    day: float
    position: float
    is_exact: bool
    weight: float
    error: float
    """The error of its time in days, at least."""


def estimate(observations: Sequence[Observation], now: datetime, period: timedelta) -> Rate | None:
    """The rate of a column; None if no two observations tell one."""
    points = [_point(each, now, period) for each in _thinned(in_order(observations))]
    exact = [point for point in points if point.is_exact]
    if len(exact) > 1 and exact[-1].day - exact[0].day >= 1:
        points = exact
    groups = [[p for p in points if p.is_exact is kind] for kind in (True, False)]
    groups = [group for group in groups if len(group) > 1 and group[-1].day > group[0].day]
    if not groups:
        groups = [points] if len(points) > 1 and points[-1].day > points[0].day else []
    return _fitted(groups) if groups else None


def in_order(observations: Sequence[Observation]) -> list[Observation]:
    """The longest chain in which times and positions both grow; no exact observation is given up for a name."""
    exact = _chain([each for each in observations if each.is_exact])
    fitting = [
        each
        for each in observations
        if not each.is_exact and all((each.at < e.at) == (each.position <= e.position) for e in exact)
    ]
    return sorted([*_chain(fitting), *exact], key=lambda each: (each.at, each.position))


def _thinned(observations: list[Observation]) -> list[Observation]:
    """At most some hundred of them, evenly; always the newest one."""
    step = -(-len(observations) // _MOST)
    return observations[::-1][::step][::-1] if step > 1 else observations


def _chain(observations: Sequence[Observation]) -> list[Observation]:
    """The longest part in which positions never fall while time grows; of several at one time, the last position."""
    by_time = {each.at: each for each in sorted(observations, key=lambda each: (each.at, each.position))}
    ends: list[int] = []
    chains: list[list[Observation]] = []
    for each in by_time.values():
        place = bisect_left(ends, each.position + 1)
        chain = [*(chains[place - 1] if place else ()), each]
        ends[place : place + 1] = [each.position]
        chains[place : place + 1] = [chain]
    return chains[-1] if chains else []


def _point(each: Observation, now: datetime, period: timedelta) -> _Point:
    day, days = (each.at - now) / DAY, period / DAY
    named = max(each.resolution / DAY / math.sqrt(12), _NAME_ERROR_IN_PERIODS * days)
    half_life = _EXACT_HALF_LIFE if each.is_exact else _NAMED_HALF_LIFE
    weight = 0.5 ** (max(-day, 0.0) / (half_life * days))
    error = _EXACT_ERROR_DAYS if each.is_exact else named
    return _Point(day, each.position, each.is_exact, weight, error)


def _fitted(groups: Sequence[Sequence[_Point]]) -> Rate:
    """Iteratively reweighted least squares, from the median of all slopes between two points."""
    slopes = [
        (b.position - a.position) / (b.day - a.day)
        for group in groups
        for a, b in combinations(group, 2)
        if b.day > a.day
    ]
    slope = median(slopes)
    weights = [[point.weight for point in group] for group in groups]
    residuals = [_residuals(group, each, slope) for group, each in zip(groups, weights, strict=True)]
    for _ in range(_ROUNDS):
        weights = [_trusted(group, rest, slope) for group, rest in zip(groups, residuals, strict=True)]
        slope = _slope(groups, weights, slope)
        residuals = [_residuals(group, each, slope) for group, each in zip(groups, weights, strict=True)]
    error = _slope_error(groups, weights, residuals, slope)
    return Rate(slope, slope - error, slope + error)


def _center(group: Sequence[_Point], weights: Sequence[float]) -> tuple[float, float]:
    total = sum(weights) or 1.0
    day = sum(w * p.day for p, w in zip(group, weights, strict=True)) / total
    return day, sum(w * p.position for p, w in zip(group, weights, strict=True)) / total


def _residuals(group: Sequence[_Point], weights: Sequence[float], slope: float) -> list[float]:
    """What is left of each point around the group's own line; its height is a median, which no outlier moves."""
    heights = [p.position - slope * p.day for p in group]
    height = median(h for h, w in zip(heights, weights, strict=True) if w > 0) if any(weights) else median(heights)
    return [each - height for each in heights]


def _trusted(group: Sequence[_Point], residuals: Sequence[float], slope: float) -> list[float]:
    """The weight of each point: the farther it is from the line, the less."""
    spread = _MAD * median(abs(each) for each in residuals)
    return [
        point.weight * _biweight(residual / max(spread, point.error * abs(slope), 1e-9))
        for point, residual in zip(group, residuals, strict=True)
    ]


def _biweight(distance: float) -> float:
    share = distance / _CUTOFF
    return (1 - share**2) ** 2 if abs(share) < 1 else 0.0


def _slope(groups: Sequence[Sequence[_Point]], weights: Sequence[Sequence[float]], otherwise: float) -> float:
    both = days = 0.0
    for group, each in zip(groups, weights, strict=True):
        day, position = _center(group, each)
        both += sum(w * (p.day - day) * (p.position - position) for p, w in zip(group, each, strict=True))
        days += sum(w * (p.day - day) ** 2 for p, w in zip(group, each, strict=True))
    return both / days if days else otherwise


def _slope_error(
    groups: Sequence[Sequence[_Point]],
    weights: Sequence[Sequence[float]],
    residuals: Sequence[Sequence[float]],
    slope: float,
) -> float:
    """Half the width of the interval: from what is left around the lines, and from what is known of times."""
    spread = days = total = squares = 0.0
    for group, each, rest in zip(groups, weights, residuals, strict=True):
        day, _ = _center(group, each)
        left = sum(w * r * r for r, w in zip(rest, each, strict=True)) / (sum(each) or 1.0)
        for p, w in zip(group, each, strict=True):
            spread += (w * (p.day - day)) ** 2 * (left + (p.error * slope) ** 2)
            days += w * (p.day - day) ** 2
            total += w
            squares += w * w
    if not days or not squares:
        return math.inf
    freedom = max(total**2 / squares - len(groups) - 1, 1.0)
    return _QUANTILE * (1 + 2 / freedom) * math.sqrt(spread) / days
