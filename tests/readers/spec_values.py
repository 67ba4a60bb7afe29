"""Values as the Iceberg spec has them in bounds and partitions: single-value serialisation, order, and transforms."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import mmh3

FLOATING = ("float", "double")
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1).toordinal()
_FORMATS = {"int": "<i", "long": "<q", "date": "<i", "time": "<q", "timestamp": "<q", "timestamptz": "<q",
            "timestamp_ns": "<q", "timestamptz_ns": "<q", "float": "<f", "double": "<d", "boolean": "<?"}  # fmt: skip


def plain(value: Any, kind: str) -> Any:
    """A value as numbers, text and bytes: dates as days, times as microseconds, decimals unscaled, UUIDs as bytes."""
    if isinstance(value, datetime):
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        since = naive - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, date):
        return value.toordinal() - _EPOCH_DAY
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        unscaled = int("".join(map(str, digits))) * 10 ** (exponent + scale_of(kind))
        return -unscaled if sign else unscaled
    return value.bytes if isinstance(value, UUID) else value


def scale_of(kind: str) -> int:
    return int(kind.removesuffix(")").rpartition(",")[2])


def decoded(bound: bytes, kind: str) -> Any:
    """A bound as a plain value. Those of files from before a type was promoted are shorter."""
    if kind.startswith("decimal"):
        return int.from_bytes(bound, "big", signed=True)
    if kind == "string":
        return bound.decode()
    if kind in _FORMATS:
        shorter = {("long", 4): "int", ("double", 4): "float"}.get((kind, len(bound)), kind)
        return struct.unpack(_FORMATS[shorter], bound)[0]
    return bound


def order(value: Any) -> Any:
    """What values are ordered by: text by its bytes, floating point numbers with -0.0 before 0.0."""
    if isinstance(value, str):
        return value.encode()
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def signed_halves(value: bytes) -> tuple[int, ...]:
    """What Java orders UUIDs by."""
    return struct.unpack(">qq", value)


def lowest_and_highest(values: Iterable[Any], by: Callable[[Any], Any] = order) -> tuple[Any, Any] | None:
    """The ends of what is neither null nor NaN."""
    found = sorted((value for value in values if value is not None and not is_nan(value)), key=by)
    return (found[0], found[-1]) if found else None


def fewest_bytes(unscaled: int) -> int:
    """How many bytes the two's complement of a number takes at least."""
    return ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8


# --- partition transforms --------------------------------------------------------------------------------------------


def transformed(transform: str, value: Any, kind: str) -> Any:
    """What a partition transform makes of a plain value."""
    if value is None or transform == "void":
        return None
    if transform == "identity":
        return value
    name, _, width = transform.removesuffix("]").partition("[")
    if name == "bucket":
        return (_hashed(value, kind) & 0x7FFFFFFF) % int(width)
    if name == "truncate":
        return value[: int(width)] if isinstance(value, str | bytes) else value - value % int(width)
    moment = value if kind == "date" else value // 86_400_000_000
    if name == "day":
        return moment
    if name == "hour":
        return value // 3_600_000_000
    day = date.fromordinal(moment + _EPOCH_DAY)
    return day.year - 1970 if name == "year" else (day.year - 1970) * 12 + day.month - 1


def result_kind(transform: str, kind: str) -> str:
    """The type of a transform's values."""
    if transform in ("identity", "void") or transform.startswith("truncate"):
        return kind
    return "date" if transform == "day" else "int"


def _hashed(value: Any, kind: str) -> int:
    if isinstance(value, str):
        return mmh3.hash(value.encode())
    if isinstance(value, bytes):
        return mmh3.hash(value)
    if kind.startswith("decimal"):
        return mmh3.hash(value.to_bytes(fewest_bytes(value), "big", signed=True))
    return mmh3.hash(struct.pack("<q", value))
