"""Whether new files lie within the bounds of those they stand in for.

A rewrite makes no values: what a new file's footer says of its smallest and largest must lie within what the table's
metadata said of the inputs. Bounds may be cut short and may be loose, so within is all that can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.engine.keys import in_javas_order
from lakewarden.errors import VerificationFailed

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import PrimitiveType

_UUID_BYTES = 16


def check_bounds(about: str, schema: Schema, inputs: Sequence[DataFile], outputs: Sequence[DataFile]) -> None:
    """Refuse new files that hold what none of the inputs can have held."""
    from pyiceberg.types import BinaryType, FixedType, PrimitiveType, StringType, UUIDType

    for field in schema.fields:
        kind = field.field_type
        if not isinstance(kind, PrimitiveType):
            continue
        if isinstance(kind, UUIDType):
            is_outside = _outside_of_uuids(inputs, outputs, field.field_id)
        else:
            by_prefix = isinstance(kind, StringType | BinaryType | FixedType)
            is_outside = _outside(inputs, outputs, field.field_id, kind, by_prefix)
        if is_outside:
            raise VerificationFailed(
                f"{about}: new files have values of {field.name} that lie outside of the bounds of the old ones",
                "Nothing was published. Either the old files' bounds in the table's metadata are wrong, "
                "and reads that filter on that column miss rows, or this is a defect.",
            )


def _outside(
    inputs: Sequence[DataFile], outputs: Sequence[DataFile], field_id: int, kind: PrimitiveType, by_prefix: bool
) -> bool:
    lower, upper = _lowest(inputs, field_id, kind), _highest(inputs, field_id, kind)
    for file in outputs:
        low, high = _bound(file.lower_bounds, field_id, kind), _bound(file.upper_bounds, field_id, kind)
        below = lower is not None and low is not None and _is_below(low, lower, by_prefix)
        above = upper is not None and high is not None and _is_below(upper, high, by_prefix)
        if below or above:
            return True
    return False


def _outside_of_uuids(inputs: Sequence[DataFile], outputs: Sequence[DataFile], field_id: int) -> bool:
    """Whether a bound of a new file, which is one of its values, can have been in none of the inputs.

    Java compared UUIDs as pairs of signed numbers for long, others compare their bytes: no file tells which it is of.
    So each is taken in either order, by itself, since the lowest of bounds in two orders is the lowest of nothing.
    """
    spans = [
        (_uuid(file.lower_bounds, field_id), _uuid(file.upper_bounds, field_id))
        for file in inputs
        if not _is_empty(file, field_id)
    ]
    found = [_uuid(bounds, field_id) for file in outputs for bounds in (file.lower_bounds, file.upper_bounds)]
    return any(value and spans and not any(_may_be_within(value, *span) for span in spans) for value in found)


def _uuid(bounds: dict[int, bytes] | None, field_id: int) -> bytes | None:
    """A UUID's bytes, which are never cut; what has another length tells nothing."""
    found = (bounds or {}).get(field_id)
    return found if found is not None and len(found) == _UUID_BYTES else None


def _may_be_within(value: bytes, low: bytes | None, high: bytes | None) -> bool:
    return any(
        (low is None or order(low) <= order(value)) and (high is None or order(value) <= order(high))
        for order in (bytes, in_javas_order)
    )


def _is_below(one: Any, other: Any, by_prefix: bool) -> bool:
    """Whether one is smaller than the other, as far as both are known: either may be cut short, or raised for that.

    What is raised is the last byte, or of a text the last character, which may change all of its bytes.
    """
    if not by_prefix:
        return bool(one < other)
    length = max(min(len(one), len(other)) - 1, 0)
    return bool(one[:length] < other[:length])  # characters are in the same order as their bytes


def _lowest(files: Sequence[DataFile], field_id: int, kind: PrimitiveType) -> Any:
    """The smallest that metadata says of all files; unknown where one of them says nothing."""
    found = [_bound(file.lower_bounds, field_id, kind) for file in files if not _is_empty(file, field_id)]
    return None if not found or any(value is None for value in found) else min(found)


def _highest(files: Sequence[DataFile], field_id: int, kind: PrimitiveType) -> Any:
    found = [_bound(file.upper_bounds, field_id, kind) for file in files if not _is_empty(file, field_id)]
    return None if not found or any(value is None for value in found) else max(found)


def _is_empty(file: DataFile, field_id: int) -> bool:
    """Whether a file is known to have nothing but nulls in a column; then it has no bounds."""
    values, nulls = (file.value_counts or {}).get(field_id), (file.null_value_counts or {}).get(field_id)
    return values is not None and values == nulls


def _bound(bounds: dict[int, bytes] | None, field_id: int, kind: PrimitiveType) -> Any:
    """One bound as a value; those of files written before a type was promoted are shorter."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType

    encoded = (bounds or {}).get(field_id)
    if encoded is None:
        return None
    if isinstance(kind, LongType) and len(encoded) == 4:
        kind = IntegerType()
    elif isinstance(kind, DoubleType) and len(encoded) == 4:
        kind = FloatType()
    try:
        return from_bytes(kind, encoded)
    except (ValueError, ArithmeticError):  # cut in the midst of a character: then nothing is known
        return None
