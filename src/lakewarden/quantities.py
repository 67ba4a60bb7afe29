"""Durations (`90d`, `12h`, `30m`), deadlines and sizes: parsing and display."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, GetJsonSchemaHandler, PlainSerializer, WithJsonSchema
from pydantic_core import CoreSchema

_DURATION = re.compile(r"\s*(\d{1,9})\s*(ms|[smhdw])\s*", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*", re.ASCII)
_LONGEST = 1000 * 365 * 86400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: object) -> timedelta:
    """Parse `90d`, `12h`, `30m`, `45s` or `250ms`."""
    if isinstance(text, timedelta):
        return text
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write it as 90d, 12h, 30m or 45s")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than a thousand years")
    return timedelta(seconds=seconds)


def parse_deadline(text: object) -> timedelta | date:
    """Parse a duration, or a date such as `2026-12-31`."""
    if isinstance(text, date) and not isinstance(text, datetime):
        return text
    if isinstance(text, str) and _DATE.fullmatch(text):
        try:
            return date.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(f"{text!r} is not a valid date") from None
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a duration such as 30d nor a date such as 2026-12-31") from None


def deadline_from(now: datetime, deadline: timedelta | date) -> datetime:
    """The time of a deadline: a duration from now, or the end of a day in UTC."""
    if isinstance(deadline, timedelta):
        return now + deadline
    return datetime.combine(deadline, time.max, UTC).replace(microsecond=0)


def show_duration(value: timedelta) -> str:
    """The shortest exact form of a duration that `parse_duration` accepts."""
    milliseconds = round(value.total_seconds() * 1000)
    for unit in ("d", "h", "m", "s"):
        size = int(_SECONDS[unit] * 1000)
        if milliseconds % size == 0 and (milliseconds or unit == "s"):
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def show_size(size: int) -> str:
    """Bytes for people: `0 B`, `4.2 KB`, `318 MB`."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TB"


def from_millis(milliseconds: int) -> datetime:
    """Iceberg's milliseconds since the epoch as a time in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def from_micros(microseconds: int) -> datetime:
    """Microseconds since the epoch, as Iceberg stores times, as a time in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_millis(moment: datetime) -> int:
    """A time in Iceberg's milliseconds since the epoch, truncated."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


class Unit:
    """Marks the unit of a number in an answer, for display."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "x-unit": self.name}


Bytes = Annotated[int, Unit("bytes")]

SnapshotId = Annotated[int, Unit("id"), PlainSerializer(str, return_type=str)]
"""A number in Python, and text in JSON, where many parsers round numbers above 2^53; accepts both."""

Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(ms|[smhdw])$", "examples": ["90d", "12h", "30m"]}),
]

Deadline = Annotated[
    timedelta | date,
    BeforeValidator(parse_deadline),
    PlainSerializer(
        lambda given: show_duration(given) if isinstance(given, timedelta) else str(given), return_type=str
    ),
    WithJsonSchema({"type": "string", "examples": ["30d", "2026-12-31"]}),
]
"""A duration from now, or a day in UTC, until its end."""


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
