"""Names of partitions: `p_YYYYMMDD` is the day on which a partition is expected to begin to fill."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from lakewarden.errors import UnfitDatabase

_NAME = re.compile(r"p_(\d{4})(?:(\d{2})(\d{2})?)?", re.IGNORECASE | re.ASCII)
_DAY = timedelta(days=1)
_SPANS = {4: timedelta(days=365), 6: timedelta(days=30), 8: _DAY}
_FARTHEST = timedelta(days=36500)


@dataclass(frozen=True)
class NamedDate:
    """The first day that a name stands for, and how long it could be."""

    day: date
    span: timedelta

    @property
    def at(self) -> datetime:
        return datetime.combine(self.day, time(), UTC)


def date_in(name: str) -> NamedDate | None:
    """The date in `p_YYYYMMDD`, `p_YYYYMM` or `p_YYYY`; None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    year, month, day = found.groups()
    try:
        return NamedDate(date(int(year), int(month or 1), int(day or 1)), _SPANS[len(name) - 2])
    except ValueError:
        return None


def name_for(start: datetime, now: datetime, after: date | None) -> str:
    """The name of a partition that begins to fill at a time; later than every name before it."""
    day = min(start, now + _FARTHEST).astimezone(UTC).date()
    if after is not None and day <= after:
        if after == date.max:
            raise UnfitDatabase("no date is left for the name of a partition", "Rename the partition p_99991231.")
        day = after + _DAY
    return f"p_{day:%Y%m%d}" if day.year > 999 else f"p_{day.year:04d}{day:%m%d}"
