"""The values of one key column, prepared once for lookups in many files.

Bounds are compared with values as stored in files: text and UUIDs as bytes, numbers, days and unscaled decimals as
integers, so that promoted types compare correctly. `pruning.py` applies this to files.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lakewarden.engine.files.bounds import in_javas_order
from lakewarden.engine.rows.keys import iceberg_type, widest

if TYPE_CHECKING:
    from pyiceberg.transforms import Transform

    from lakewarden.records.erasure import HiddenKey

Stored = int | bytes
_EPOCH = date(1970, 1, 1).toordinal()
_FEW = 1_000  # values for which Arrow can rebuild its hash table per batch
USUAL_LENGTH = 16  # characters that text bounds are truncated to by default
_SURROGATES = range(0xD800, 0xE000)


class KeyValues:
    """One key's values: sorted for bounds, transformed for partitions, and as a set for rows."""

    def __init__(self, key: HiddenKey) -> None:
        self.field_id, self.kind = key.field_id, key.kind
        self._texts = self.texts = key.values
        self._family = key.kind.split("(")[0]
        self._transformed: dict[str, frozenset[Any] | None] = {}
        self._lock = threading.Lock()
        self.stored: Sequence[Stored] = sorted({_stored(self._family, text) for text in key.values})
        self._orders: list[tuple[Callable[[Any], Any], Sequence[Any]]] = [(lambda value: value, self.stored)]
        if self._family == "uuid":  # Java long compared them as pairs of signed numbers
            self._orders.append((in_javas_order, sorted(in_javas_order(UUID(text).bytes) for text in key.values)))

    @cached_property
    def fingerprint(self) -> str:
        """Identifies these values of this column without containing one."""
        digest = blake2b(f"{self.field_id} {self.kind}".encode(), digest_size=16)
        for text in sorted(self._texts):
            digest.update(b"\0" + text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def may_be_within(self, low: Stored | None, high: Stored | None) -> bool:
        """Whether one of the values may be between two bounds."""
        return any(start < end for start, end in self._spans(low, high))

    def within(self, low: Stored | None, high: Stored | None, most: int) -> Sequence[Stored] | None:
        """The values that may be between two bounds; None if there are more than `most`."""
        spans = self._spans(low, high)
        start, end = spans[0] if len(spans) == 1 else (0, len(self.stored))
        return self.stored[start:end] if end - start <= most else None

    def _spans(self, low: Stored | None, high: Stored | None) -> list[tuple[int, int]]:
        """The range of values between two bounds, in each order that the bounds may have."""
        return [
            (
                0 if low is None else bisect_left(values, order(low)),
                len(values) if high is None else bisect_right(values, self._raised(order(high))),
            )
            for order, values in self._orders
        ]

    def bound(self, encoded: bytes | None) -> Stored | None:
        """A bound from an Iceberg manifest; those written before a type was promoted are shorter."""
        if encoded is None or self._family == "string":
            return encoded
        if not encoded or (self._family == "uuid" and len(encoded) != 16):
            return None
        if self._family == "uuid":
            return encoded
        return int.from_bytes(encoded, "big" if self._family == "decimal" else "little", signed=True)

    def statistic(self, raw: Any) -> Stored:
        """A bound from a Parquet footer."""
        if self._family == "decimal" and isinstance(raw, bytes):
            return int.from_bytes(raw, "big", signed=True)
        return raw  # type: ignore[no-any-return]

    def transformed(self, transform: Transform[Any, Any]) -> frozenset[Any] | None:
        """The results of a partition transform for all values; None if unknown."""
        name = str(transform)
        with self._lock:
            if name not in self._transformed:
                self._transformed[name] = self._transform(transform)
            return self._transformed[name]

    def spelled(self, transform: Transform[Any, Any]) -> frozenset[str]:
        """The results of a partition transform, as spelled in paths and summaries."""
        name = f"{transform} spelled"
        made = self.transformed(transform) or frozenset()
        with self._lock:
            if name not in self._transformed:
                self._transformed[name] = frozenset(self.spell(transform, value) for value in made)
            return self._transformed[name] or frozenset()

    def spell(self, transform: Transform[Any, Any], value: Any) -> str:
        return transform.to_human_string(iceberg_type(self.kind), partition_value(value))

    def is_revealed_by(self, bound: bytes | None, lengths: Collection[int], is_upper: bool) -> bool:
        """Whether a bound is one of the values, or the beginning of one, truncated to one of these lengths."""
        value = self.bound(bound)
        if value is None:
            return False
        if self._holds(value):
            return True
        if not isinstance(value, bytes) or self._family != "string":
            return False
        text = value.decode(errors="replace")
        if len(text) <= USUAL_LENGTH and len(text) not in lengths:
            return False
        return self._begins(value) or (is_upper and self._begins(_lowered(text)))

    def matches(self, array: Any) -> Any:
        """Which rows of an array hold one of the values; dictionaries are looked up by entry."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_dictionary(array.type):
            return pc.fill_null(pc.take(self.matches(array.dictionary), array.indices), False)
        array = array if array.type == self._arrow.type else array.cast(self._arrow.type)
        if len(self._arrow) <= max(_FEW, len(array) // 2):
            return pc.is_in(array, value_set=self._arrow)
        known = self._known  # built once; Arrow would process all values for each batch
        return pa.array([value in known for value in self._plain(array)], pa.bool_())

    def can_be(self, type_: Any) -> bool:
        """Whether a file's column of this type can be compared with the values."""
        from pyarrow import types

        if types.is_dictionary(type_):
            return self.can_be(type_.value_type)
        match self._family:
            case "string":
                return str(type_) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
            case "int" | "long":
                return bool(types.is_integer(type_))
            case "date":
                return bool(types.is_date32(type_))
            case "uuid":
                return bool(getattr(type_, "storage_type", type_) == self._arrow.type)
            case _:
                return bool(types.is_decimal(type_) and type_.scale == self._arrow.type.scale)

    @cached_property
    def _arrow(self) -> Any:
        return widest(self.kind, self._texts)

    @cached_property
    def _known(self) -> frozenset[Any]:
        return frozenset(self._plain(self._arrow))

    def _plain(self, array: Any) -> list[Any]:
        import pyarrow as pa

        return (array.cast(pa.int32()) if self._family == "date" else array).to_pylist()  # type: ignore[no-any-return]

    def _raised(self, high: Any) -> Any:
        """A bound above all texts that begin with `high`: no UTF-8 byte is 0xff."""
        return high + b"\xff" if self._family == "string" else high

    def _transform(self, transform: Transform[Any, Any]) -> frozenset[Any] | None:
        from pyiceberg.transforms import UnknownTransform, VoidTransform

        kind = iceberg_type(self.kind)
        if isinstance(transform, UnknownTransform | VoidTransform) or not transform.can_transform(kind):
            return None
        apply = transform.transform(kind)
        match self._family:
            case "string":
                return frozenset(apply(text) for text in self._texts)
            case "decimal":
                return frozenset(apply(Decimal(text)) for text in self._texts)
            case _:
                return frozenset(apply(value) for value in self.stored)

    def _holds(self, value: Stored) -> bool:
        place = bisect_left(self.stored, value)
        return place < len(self.stored) and self.stored[place] == value

    def _begins(self, beginning: bytes) -> bool:
        """Whether a value begins with these bytes."""
        place = bisect_left(self.stored, beginning)
        return place < len(self.stored) and self.stored[place].startswith(beginning)  # type: ignore[union-attr]


def partition_value(value: Any) -> Any:
    """A partition value as transforms produce it here: days as numbers, UUIDs as bytes."""
    if isinstance(value, UUID):
        return value.bytes
    return value.toordinal() - _EPOCH if isinstance(value, date) else value


def _stored(family: str, text: str) -> Stored:
    match family:
        case "string":
            return text.encode()
        case "int" | "long":
            return int(text)
        case "date":
            return date.fromisoformat(text).toordinal() - _EPOCH
        case "uuid":
            return UUID(text).bytes
        case _:
            return int(text.replace(".", ""))  # its text has as many decimals as the type's scale


def _lowered(text: str) -> bytes:
    """An upper bound before its last character was incremented."""
    before = ord(text[-1]) - 1 if text else -1
    before = _SURROGATES.start - 1 if before in _SURROGATES else before
    return (text[:-1] + chr(before)).encode() if before >= 0 else text.encode()
