"""The partitions that a table should have: which are filled, active and empty, and how the empty ones should be.

Only empty partitions change. A name or a bound that is near enough to the prediction stays, so that a table that fills
as expected is left alone for as long as it has enough empty partitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.names import date_in, name_for
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position
from lakewarden.features.sequence.rate import DAY, Rate

_NEAR_IN_PERIODS = 0.2
_NEAR_IN_HORIZONS = 0.1
_SPAN_TOLERANCE = 0.25
_FOREVER = timedelta(days=36500)


@dataclass(frozen=True)
class Split:
    """The partitions of a table around its position."""

    filled: tuple[Partition, ...]
    active: Partition
    empty: tuple[Partition, ...]

    @property
    def non_empty(self) -> tuple[Partition, ...]:
        return (*self.filled, self.active)


@dataclass(frozen=True)
class Prediction:
    """When a position is reached: as estimated, at the earliest and at the latest."""

    at: datetime
    earliest: datetime
    latest: datetime


def split(table: PartitionedTable, position: Position) -> Split:
    """The active partition holds the position: the first one whose bound is above it."""
    place = next(place for place, partition in enumerate(table.partitions) if partition.holds(position))
    return Split(table.partitions[:place], table.partitions[place], table.partitions[place + 1 :])


@dataclass(frozen=True)
class Outlook:
    """What is known about how a table fills."""

    position: Position
    rates: tuple[Rate, ...]
    now: datetime

    def reached(self, target: Position) -> Prediction:
        """When rows reach a position, and not only some of its columns."""

        def at(speeds: Sequence[float]) -> datetime:
            return self.now + min(timedelta(days=min(self._days(target, speeds), 1e6)), _FOREVER)

        speed, low, high = ([getattr(rate, name) for rate in self.rates] for name in ("per_day", "low", "high"))
        return Prediction(at(speed), at(high), at(low))

    def _days(self, target: Position, speeds: Sequence[float]) -> float:
        for here, there, speed in zip(self.position, target, speeds, strict=True):
            if there > here:
                return (there - here) / speed if speed > 0 else math.inf
            if there < here:
                return 0.0
        return 0.0

    def after(self, lower: Position, period: timedelta) -> Position:
        """The position one period of filling after another one."""
        steps = [max(0, round(rate.per_day * (period / DAY))) for rate in self.rates]
        if not any(steps):
            steps[0] = 1
        return tuple(value + step for value, step in zip(lower, steps, strict=True))

    def is_near_a_period(self, lower: Position, bound: Position, period: timedelta) -> bool:
        """Whether the range between two positions may well take about one period to fill."""
        if bound <= lower:
            return False
        place = next(n for n, (low, high) in enumerate(zip(lower, bound, strict=True)) if low != high)
        ids, rate, days = bound[place] - lower[place], self.rates[place], period / DAY
        is_long = rate.high > 0 and ids / rate.high > days * (1 + _SPAN_TOLERANCE)
        is_short = rate.low > 0 and ids / rate.low < days * (1 - _SPAN_TOLERANCE)
        return not is_long and not is_short


def intended(parts: Split, outlook: Outlook, period: timedelta, num_empty: int) -> tuple[Partition, ...]:
    """The empty partitions as they should be; the last one is MAXVALUE."""
    active = parts.active
    if active.bound is None:
        raise UnfitDatabase(
            f"no empty partition is left: rows are already in {active.name}, the last one",
            "lakewarden sequence record FILE, and later sequence convert FILE, show how to split it.",
        )
    wanted = max(len(parts.empty), num_empty)
    if not any(rate.is_growing for rate in outlook.rates):
        if wanted == len(parts.empty):
            return parts.empty
        raise UnfitDatabase("no rows arrive, so no new partition can be planned", "Lower num_empty, or run it later.")
    lower, last = active.bound, last_date(parts.non_empty)
    found: list[Partition] = []
    for place in range(wanted):
        existing = parts.empty[place] if place < len(parts.empty) else None
        name = _name(existing, outlook, lower, last, period)
        dated = date_in(name)
        last = dated.day if dated else last
        bound = None if place == wanted - 1 else _bound(existing, outlook, lower, period)
        found.append(Partition(name, bound))
        lower = lower if bound is None else bound
    return tuple(found)


def _name(existing: Partition | None, outlook: Outlook, lower: Position, last: date | None, period: timedelta) -> str:
    """The existing name if its date is near the predicted one, or is as likely; otherwise a new one."""
    predicted = outlook.reached(lower)
    dated = date_in(existing.name) if existing else None
    if existing is not None and dated is not None and (last is None or dated.day > last):
        near = max(_NEAR_IN_PERIODS * period, _NEAR_IN_HORIZONS * (predicted.at - outlook.now), DAY)
        if predicted.earliest - DAY <= dated.at <= predicted.latest or abs(dated.at - predicted.at) <= near:
            return existing.name
    return name_for(predicted.at, outlook.now, last)


def _bound(existing: Partition | None, outlook: Outlook, lower: Position, period: timedelta) -> Position:
    bound = existing.bound if existing else None
    if bound is not None and outlook.is_near_a_period(lower, bound, period):
        return bound
    return outlook.after(lower, period)


def last_date(partitions: Sequence[Partition]) -> date | None:
    """The latest date in the names of partitions."""
    return max((dated.day for partition in partitions if (dated := date_in(partition.name))), default=None)
