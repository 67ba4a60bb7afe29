"""Key columns: finding the column of a path, and converting its values between texts and Arrow.

Each value has one canonical text for its type, so that two spellings of one value are equal. No error message contains
a value: it names the value's position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lakewarden.errors import BadValue, ColumnNotFound, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField, PrimitiveType

_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)


@dataclass(frozen=True)
class KeyColumn:
    """A column that identifies a row's owner: its path when requested, and its permanent field id and type."""

    path: str
    field_id: int
    kind: str


def find_keys(metadata: TableMetadata, path: str, about: str) -> tuple[KeyColumn, ...]:
    """Every column that ever had a path, the newest first: one that was dropped and added again is another field.

    A former column only counts if it can be a key, and if the current schema does not have it by another name.
    """
    current, found = metadata.schema(), dict[int, KeyColumn | None]()
    for schema in [current, *reversed(metadata.schemas)]:
        try:
            field = schema.find_field(path)
        except ValueError:
            continue
        if field.field_id in found or current.find_column_name(field.field_id) not in (None, path):
            continue
        try:
            found[field.field_id] = _key(schema, field, path, about)
        except BadValue:
            if not found:
                raise
            found[field.field_id] = None
    if not found:
        known = current.column_names
        raise ColumnNotFound(
            f"{about} has no column {path}", did_you_mean(path, known, f"It has {', '.join(known[:12])}.")
        )
    return tuple(key for key in found.values() if key is not None)


def _key(schema: Schema, field: NestedField, path: str, about: str) -> KeyColumn:
    from pyiceberg.types import PrimitiveType

    if not isinstance(field.field_type, PrimitiveType) or not _is_keyable(field.field_type):
        raise BadValue(
            f"{about}: {path} is of type {field.field_type}, which cannot be a key",
            "A key is a string, int, long, uuid, date or decimal, or such a field within a struct.",
        )
    _check_not_repeated(schema, field.field_id, path, about)
    return KeyColumn(path, field.field_id, str(field.field_type))


def canonical(
    kind: str, texts: Iterable[str], about: str, place_of: Callable[[int], str] = "value {}".format
) -> Iterator[str]:
    """Each value in canonical form; an invalid one is reported by its position, never quoted."""
    read = _reader(kind)
    for place, text in enumerate(texts, start=1):
        try:
            yield read(text)
        except (ValueError, InvalidOperation):
            raise BadValue(
                f"{about}: {place_of(place)} is not of type {kind}", "Nothing was registered. Values are not shown."
            ) from None


def is_of_kind(kind: str, text: str) -> bool:
    """Whether a text is a valid value of a type."""
    try:
        _reader(kind)(text)
    except (ValueError, InvalidOperation):
        return False
    return True


def as_arrow(kind: str, values: Sequence[str]) -> pa.Array:
    """Canonical texts as an Arrow array of the column's type."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    typed = iceberg_type(kind)
    match kind.split("(")[0]:
        case "string":
            return pa.array(values, pa.string())
        case "int":
            return pa.array([int(value) for value in values], pa.int32())
        case "long":
            return pa.array([int(value) for value in values], pa.int64())
        case "date":
            return pa.array([date.fromisoformat(value) for value in values], pa.date32())
        case "uuid":
            return pa.array([UUID(value).bytes for value in values], pa.binary(16))
        case _:
            return pa.array([Decimal(value) for value in values], schema_to_pyarrow(typed))


def widest(kind: str, values: Sequence[str]) -> pa.Array:
    """Canonical texts in the widest type of their family: the column may have been promoted since the request."""
    import pyarrow as pa

    made = as_arrow(kind, values)
    if pa.types.is_integer(made.type):
        return made.cast(pa.int64())
    return made.cast(pa.decimal128(38, made.type.scale)) if pa.types.is_decimal(made.type) else made


def _is_keyable(kind: PrimitiveType) -> bool:
    return str(kind).split("(")[0] in ("string", "int", "long", "uuid", "date", "decimal")


def _check_not_repeated(schema: Schema, field_id: int, path: str, about: str) -> None:
    """A value within a list or map does not identify the owner of a row."""
    from pyiceberg.types import ListType, MapType

    parts = path.split(".")
    for length in range(1, len(parts)):
        above = schema.find_field(".".join(parts[:length]))
        if isinstance(above.field_type, ListType | MapType):
            raise BadValue(f"{about}: {path} is within a {above.field_type}", "A key has one value per row.")


def iceberg_type(kind: str) -> PrimitiveType:
    """The Iceberg type of a kind such as `decimal(9, 2)`."""
    from pydantic import TypeAdapter
    from pyiceberg.types import IcebergType

    return TypeAdapter(IcebergType).validate_python(kind)  # type: ignore[return-value]


def _reader(kind: str) -> Any:
    if kind == "string":
        return lambda text: text
    if kind in ("int", "long"):
        limit = 2**31 if kind == "int" else 2**63
        return lambda text: _whole(text, limit)
    if kind == "uuid":
        return lambda text: str(UUID(text.strip()))
    if kind == "date":
        return lambda text: date.fromisoformat(text.strip()).isoformat()
    precision, scale = (int(number) for number in re.findall(r"\d+", kind))
    return lambda text: _decimal(text, precision, scale)


def _whole(text: str, limit: int) -> str:
    if not _WHOLE.fullmatch(text.strip()) or not -limit <= int(text) < limit:
        raise ValueError
    return str(int(text))


def _decimal(text: str, precision: int, scale: int) -> str:
    number = Decimal(text.strip())
    if not number.is_finite() or number != number.quantize(Decimal(1).scaleb(-scale)):
        raise ValueError
    if number and number.adjusted() >= precision - scale:
        raise ValueError
    return f"{number:.{scale}f}"
