"""Divides one column of whole numbers or times into ranges in this process, which is faster than on Spark.

Its values take eight bytes each, so that many millions fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakewarden.engine.sql.tuples import Tuple, TupleColumns

HERE = 50_000_000
"""Values that are sorted in this process."""
_MANY = 1000  # ranges; for more, sorting takes no longer
_KINDS = ("int", "long", "date", "timestamp", "timestamptz")


@dataclass(frozen=True)
class Range:
    """Rows after one tuple, up to another one."""

    lower: Tuple | None
    upper: Tuple | None
    """None only if the source has no rows."""
    rows: int


def is_sortable(columns: TupleColumns) -> bool:
    return len(columns.names) == 1 and columns.kinds[0] in _KINDS


@dataclass(frozen=True)
class SortedColumn:
    """The values after a lower bound, sorted only as far as ranges need it, and how many are NULL."""

    values: Any
    nulls: int
    type: Any

    @classmethod
    def of(cls, batches: Iterable[Any], kind: str, after: Tuple | None) -> SortedColumn:
        import numpy as np
        import pyarrow as pa

        whole = pa.int32() if kind in ("int", "date") else pa.int64()
        parts, nulls, type_ = [], 0, whole
        for column in batches:
            type_ = column.type
            nulls += column.null_count
            parts.append(column.drop_null().cast(whole).to_numpy(zero_copy_only=False))
        values = np.concatenate(parts) if parts else np.array([], dtype=np.int64)
        if after is not None:
            nulls = 0
            if after[0] is not None:
                values = values[values > pa.scalar(after[0], type_).cast(whole).as_py()]
        return cls(values, nulls, type_)

    def ranges(self, after: Tuple | None, size: int) -> list[Range]:
        """Ranges of at most so many rows, or of one value that has more."""
        import numpy as np

        even = self._even(after, size)
        if even is not None:
            return even
        self.values.sort()
        values, found, lower = self.values, [], after
        start, rows = 0, self.nulls
        if rows and (rows >= size or not len(values)):
            found.append(Range(lower, (None,), rows))
            lower, rows = (None,), 0
        while start < len(values):
            end = min(start + max(size - rows, 1), len(values))
            if end < len(values) and values[end] == values[end - 1]:  # equal values stay together
                first = int(np.searchsorted(values, values[end], "left"))
                is_one = first <= start and not rows
                end = int(np.searchsorted(values, values[end], "right")) if is_one else max(first, start)
            if end > start:
                upper: Tuple = (self._value(values[end - 1]),)
                found.append(Range(lower, upper, rows + end - start))
            else:  # the NULLs alone
                upper = (None,)
                found.append(Range(lower, upper, rows))
            lower, start, rows = upper, end, 0
        return found

    def _even(self, after: Tuple | None, size: int) -> list[Range] | None:
        """Ranges that all have so many rows, without sorting; None if equal values would be in two of them."""
        import numpy as np

        values, total = self.values, len(self.values)
        ends = np.arange(size, total, size)
        if self.nulls or not total or len(ends) > _MANY:
            return None
        values.partition(np.append(np.concatenate([ends - 1, ends]), total - 1))
        if (values[ends - 1] == values[ends]).any():
            return None
        uppers: list[Tuple] = [(self._value(values[end - 1]),) for end in (*ends, total)]
        rows = [*[size] * len(ends), total - size * len(ends)]
        return [Range(*each) for each in zip([after, *uppers], uppers, rows, strict=False)]

    def _value(self, number: Any) -> Any:
        import pyarrow as pa

        whole = pa.int32() if pa.types.is_int32(self.type) or pa.types.is_date32(self.type) else pa.int64()
        return pa.scalar(int(number), whole).cast(self.type).as_py()
