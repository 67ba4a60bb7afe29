"""Tuples of checkpoint columns: their order, in Python and in Spark, and as JSON.

Tuples are compared column by column, NULL before any value and NaN after any number, as Spark sorts them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.sql.placeholders import as_text
from lakewarden.errors import BadValue, ColumnNotFound, did_you_mean

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import Column

Tuple = tuple[Any, ...]
_WHOLE = ("int", "long")
_WITH_NAN = ("float", "double")
_ORDERED = (*_WHOLE, *_WITH_NAN, "boolean", "date", "timestamp", "timestamptz", "string", "binary")


@dataclass(frozen=True)
class TupleColumns:
    """The checkpoint columns of a source, each with its Iceberg type."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str], source: str) -> TupleColumns:
        known = {field.name.lower(): field for field in schema.fields}
        for name in names:
            if name.lower() not in known:
                hint = did_you_mean(name, schema.column_names, f"It has {', '.join(schema.column_names)}.")
                raise ColumnNotFound(f"checkpoint_columns: {source} has no column {name}", hint)
        fields = [known[name.lower()] for name in names]
        kinds = tuple(str(field.field_type) for field in fields)
        for name, kind in zip(names, kinds, strict=True):
            if kind not in _ORDERED and not kind.startswith("decimal"):
                raise BadValue(
                    f"checkpoint_columns: {name} of {source} is of type {kind}", f"Supported: {', '.join(_ORDERED)}."
                )
        return cls(tuple(field.name for field in fields), kinds)

    def dump(self, values: Tuple) -> str:
        """A tuple as JSON."""
        return json.dumps([_plain(value) for value in values], ensure_ascii=False)

    def load(self, text: str) -> Tuple:
        return tuple(_typed(value, kind) for value, kind in zip(json.loads(text), self.kinds, strict=True))

    def given(self, values: dict[str, Any]) -> Tuple | None:
        """A tuple as people write it, by column; None if there is none."""
        if not values:
            return None
        try:
            by_name = {name.lower(): value for name, value in values.items()}
            return tuple(_typed(by_name[name.lower()], kind) for name, kind in zip(self.names, self.kinds, strict=True))
        except (ValueError, TypeError, ArithmeticError, KeyError):
            raise BadValue(f"initial_checkpoint: {values} does not fit the types {', '.join(self.kinds)}") from None

    def after(self, values: Tuple) -> Column:
        """Whether a row is after a tuple; NULL means no."""
        from pyspark.sql import functions as F

        found: Column | None = None
        for name, kind, value in reversed(list(zip(self.names, self.kinds, values, strict=True))):
            column = F.col(identifier(name))
            if value is None:
                later, same = column.isNotNull(), column.isNull()
            else:
                later, same = column > _literal(value, kind), column.eqNullSafe(_literal(value, kind))
            found = later if found is None else later | (same & found)
        assert found is not None
        return found

    def within(self, lower: Tuple | None, upper: Tuple | None) -> Column:
        """Whether a row is after one tuple and not after another, in a form that prunes files by the first column."""
        from pyspark.sql import functions as F

        column, wanted = F.col(identifier(self.names[0])), F.lit(True)
        prunes = self.kinds[0] not in _WITH_NAN  # Iceberg leaves NaN out of a file's bounds
        if lower is not None:
            wanted = wanted & F.coalesce(self.after(lower), F.lit(False))
            if lower[0] is not None and prunes:
                wanted = wanted & (column >= _literal(lower[0], self.kinds[0]))
        if upper is not None:
            wanted = wanted & ~F.coalesce(self.after(upper), F.lit(False))
        if upper is not None and prunes:
            first = column <= _literal(upper[0], self.kinds[0]) if upper[0] is not None else F.lit(False)
            wanted = wanted & (first | column.isNull())
        return wanted

    def is_none_of(self, tuples: Sequence[Tuple]) -> Column:
        """Whether a row has none of these tuples."""
        from pyspark.sql import functions as F

        def is_another(values: Tuple) -> Column:
            same = F.lit(True)
            for name, kind, value in zip(self.names, self.kinds, values, strict=True):
                column = F.col(identifier(name))
                same = same & (column.isNull() if value is None else column.eqNullSafe(_literal(value, kind)))
            return ~same

        conditions = [F.lit(True), *(is_another(values) for values in tuples)]
        while len(conditions) > 1:  # in pairs: a long chain would be too deep for Spark Connect
            pairs = zip(conditions[::2], [*conditions[1::2], F.lit(True)], strict=False)
            conditions = [one & other for one, other in pairs]
        return conditions[0]

    def number(self, uppers: Sequence[Tuple]) -> Column:
        """The number of a row's range, by the last tuple of each range but the last one: a tree of comparisons."""
        from pyspark.sql import functions as F

        def among(first: int, last: int) -> Column:
            if first == last:
                return F.lit(first)
            middle = (first + last) // 2
            return F.when(self.after(uppers[middle]), among(middle + 1, last)).otherwise(among(first, middle))

        return among(0, len(uppers))


def order(values: Tuple) -> tuple[tuple[int, Any], ...]:
    """A key that sorts tuples as Spark does."""
    return tuple(
        (0, 0) if value is None else (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)
        for value in values
    )


def is_same(one: Tuple | None, other: Tuple | None) -> bool:
    """Whether tuples are equal as Spark compares them: NaN is equal to NaN."""
    return one is other or (one is not None and other is not None and order(one) == order(other))


def is_after(one: Tuple | None, other: Tuple | None) -> bool:
    """Whether a tuple is after another; None is before all tuples."""
    return one is not None and (other is None or order(one) > order(other))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | str) else as_text(value)


def _typed(value: Any, kind: str) -> Any:
    if value is None or kind in ("string", "boolean"):
        return value if value is None or kind == "boolean" else str(value)
    if kind in _WHOLE:
        return int(value)
    if kind in _WITH_NAN:
        return float(value)
    if kind == "date":
        return date.fromisoformat(str(value))
    if kind == "binary":
        return bytes.fromhex(str(value))
    if kind.startswith("decimal"):
        return Decimal(str(value))
    at = datetime.fromisoformat(str(value))
    if kind == "timestamp":
        return at.replace(tzinfo=None)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _literal(value: Any, kind: str) -> Column:
    from pyspark.sql import functions as F

    if kind == "timestamp":
        return F.lit(as_text(value)).cast("timestamp_ntz")
    if kind == "timestamptz":
        return F.lit(value)
    if kind == "binary":
        return F.unhex(F.lit(value.hex()))
    return F.lit(value).cast({"long": "bigint"}.get(kind, kind.replace(" ", "")))
