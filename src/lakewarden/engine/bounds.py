"""Whether new files lie within the bounds of those they stand in for.

A rewrite makes no values: what a new file's footer says of its smallest and largest must lie within what the table's
metadata said of the inputs. Bounds may be cut short and may be loose, so within is all that can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.errors import VerificationFailed

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import PrimitiveType


def check_bounds(about: str, schema: Schema, inputs: Sequence[DataFile], outputs: Sequence[DataFile]) -> None:
    """Refuse new files that hold what none of the inputs can have held."""
    from pyiceberg.types import BinaryType, FixedType, PrimitiveType, StringType, UUIDType

    for field in schema.fields:
        kind = field.field_type
        if not isinstance(kind, PrimitiveType):
            continue
        by_prefix = isinstance(kind, StringType | BinaryType | FixedType | UUIDType)
        lower, upper = _lowest(inputs, field.field_id, kind), _highest(inputs, field.field_id, kind)
        for file in outputs:
            found = _bound(file.lower_bounds, field.field_id, kind), _bound(file.upper_bounds, field.field_id, kind)
            below = lower is not None and found[0] is not None and _is_below(found[0], lower, by_prefix)
            above = upper is not None and found[1] is not None and _is_below(upper, found[1], by_prefix)
            if below or above:
                raise VerificationFailed(
                    f"{about}: new files have values of {field.name} that lie outside of the bounds of the old ones",
                    "Nothing was published. Either the old files' bounds in the table's metadata are wrong, "
                    "and reads that filter on that column miss rows, or this is a defect.",
                )


def _is_below(one: Any, other: Any, by_prefix: bool) -> bool:
    """Whether one is smaller than the other, as far as both are known: either may be cut short, or raised for that.

    What is raised is the last byte, or of a text the last character, which may change all of its bytes.
    """
    if not by_prefix:
        return bool(one < other)
    a, b = _units(one), _units(other)
    length = max(min(len(a), len(b)) - 1, 0)
    return bool(a[:length] < b[:length])


def _units(value: Any) -> Any:
    """What a value is cut by. Characters are in the same order as their bytes."""
    return value if isinstance(value, str | bytes) else bytes(value.bytes)


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
