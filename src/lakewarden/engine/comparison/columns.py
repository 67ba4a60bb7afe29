"""Which columns two versions have in common, and the one schema that both sides are read with.

Versions of one table are matched by field id, so a renamed column is the same column. Versions of different tables are
matched by name. Types that differ by a promotion are compared as the wider type. Fields within structs are matched in
the same way; a field that only one side has is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.engine.kernel.compare_messages import Side

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

_ID = b"PARQUET:field_id"
_MOST_DIGITS = 38
Both = tuple[Any, Any]
"""The Arrow types of the two sides: equal but for their field ids."""


@dataclass(frozen=True)
class MatchedColumn:
    """A column that both sides have, by its name on the `to` side."""

    name: str
    fields: dict[Side, Any]
    """Arrow fields with the ids of each side."""
    old_name: str


@dataclass(frozen=True)
class Matched:
    """What two schemas have in common."""

    columns: tuple[MatchedColumn, ...]
    left_out: dict[str, str]
    """Columns that are not compared, with the reason; fields within structs by their dotted path."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def schema(self, side: Side) -> bytes:
        """The Arrow schema of the columns, as a message."""
        return bytes(pa.schema([column.fields[side] for column in self.columns]).serialize())


def match(before: Schema, after: Schema, by_name: bool, ignored: Sequence[str] = ()) -> Matched:
    """The columns that two schemas have in common, in the order of the second."""
    matching = _Matching(by_name, frozenset(ignored))
    columns = tuple(matching.columns(before.fields, after.fields))
    return Matched(columns, matching.left_out)


class _Matching:
    def __init__(self, by_name: bool, ignored: frozenset[str]) -> None:
        self._by_name = by_name
        self._ignored = ignored
        self.left_out: dict[str, str] = {}

    def columns(self, before: Sequence[NestedField], after: Sequence[NestedField]) -> Iterator[MatchedColumn]:
        for old, new in self._pairs(before, after, ""):
            types = self._types(old.field_type, new.field_type, new.name)
            if types is not None:
                fields: dict[Side, Any] = {
                    "from": _field(new.name, types[0], old.field_id),
                    "to": _field(new.name, types[1], new.field_id),
                }
                yield MatchedColumn(new.name, fields, old.name)

    def _pairs(
        self, before: Sequence[NestedField], after: Sequence[NestedField], above: str
    ) -> Iterator[tuple[NestedField, NestedField]]:
        known = {self._identity(field): field for field in before}
        for new in after:
            path = above + new.name
            old = known.pop(self._identity(new), None)
            if path in self._ignored:
                self.left_out[path] = "ignored"
            elif old is None:
                self.left_out[path] = "only in TO"
            else:
                yield old, new
        for old in known.values():
            self.left_out[above + old.name] = "only in FROM"

    def _identity(self, field: NestedField) -> int | str:
        return field.name if self._by_name else field.field_id

    def _types(self, before: IcebergType, after: IcebergType, path: str) -> Both | None:
        """The types of both sides; None, with the reason noted, if they cannot be compared."""
        from pyiceberg.types import ListType, MapType, StructType

        if isinstance(before, StructType) and isinstance(after, StructType):
            return self._struct(before, after, path)
        if isinstance(before, ListType) and isinstance(after, ListType):
            inner = self._types(before.element_type, after.element_type, f"{path}.element")
            if inner is None:
                return None
            ids = (before.element_id, after.element_id)
            one, other = (pa.list_(_field("element", t, id_)) for t, id_ in zip(inner, ids, strict=True))
            return one, other
        if isinstance(before, MapType) and isinstance(after, MapType):
            keys = self._types(before.key_type, after.key_type, f"{path}.key")
            values = self._types(before.value_type, after.value_type, f"{path}.value")
            if keys is None or values is None:
                return None
            return (
                pa.map_(_key_field(keys[0], before.key_id), _field("value", values[0], before.value_id)),
                pa.map_(_key_field(keys[1], after.key_id), _field("value", values[1], after.value_id)),
            )
        wider = _wider(before, after)
        if wider is None:
            self.left_out[path] = f"{before} and {after} cannot be compared"
            return None
        return wider, wider

    def _struct(self, before: Any, after: Any, path: str) -> Both | None:
        pairs = []
        for old, new in self._pairs(before.fields, after.fields, f"{path}."):
            types = self._types(old.field_type, new.field_type, f"{path}.{new.name}")
            if types is not None:
                pairs.append(
                    (_field(new.name, types[0], old.field_id), _field(new.name, types[1], new.field_id)),
                )
        if not pairs:
            self.left_out[path] = "the two sides have no field of it in common"
            return None
        return pa.struct([one for one, _ in pairs]), pa.struct([other for _, other in pairs])


def _field(name: str, kind: Any, field_id: int) -> Any:
    return pa.field(name, kind, nullable=True, metadata={_ID: str(field_id).encode()})


def _key_field(kind: Any, field_id: int) -> Any:
    return pa.field("key", kind, nullable=False, metadata={_ID: str(field_id).encode()})


def _wider(before: IcebergType, after: IcebergType) -> Any | None:
    """The type that values of both types are compared as."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.types import DecimalType, DoubleType, FloatType, IntegerType, LongType, PrimitiveType

    if not isinstance(before, PrimitiveType) or not isinstance(after, PrimitiveType):
        return None
    if before == after:
        return schema_to_pyarrow(before)
    if isinstance(before, DecimalType) and isinstance(after, DecimalType):
        scale = max(before.scale, after.scale)
        digits = max(before.precision - before.scale, after.precision - after.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None
    both = {type(before), type(after)}
    if both == {IntegerType, LongType}:
        return pa.int64()
    return pa.float64() if both == {FloatType, DoubleType} else None
