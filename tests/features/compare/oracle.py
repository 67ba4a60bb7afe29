"""A comparison of two versions as the definition says it, row by row in plain Python, over what PyIceberg reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

Row = dict[str, Any]


def canonical(value: Any) -> Any:
    """A value such that equal ones are equal to Python, and can be counted."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, canonical(inner)) for name, inner in value.items())
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):  # a map
            return frozenset((canonical(key), canonical(inner)) for key, inner in value)
        return tuple(canonical(inner) for inner in value)
    return value


@dataclass
class Expected:
    """What a comparison must answer."""

    rows_from: int
    rows_to: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    ambiguous_keys: int = 0
    null_keys: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    changes: dict[str, Counter[tuple[Any, Any]]] = field(default_factory=dict)

    @property
    def unchanged(self) -> int:
        return self.rows_from - self.removed - self.changed


def compare(
    before: Sequence[Row], after: Sequence[Row], key: Sequence[str], tolerances: dict[str, Decimal] | None = None
) -> Expected:
    """Compare rows that have the same columns, by name."""
    found = Expected(len(before), len(after))
    originals: dict[Any, Row] = {}
    counts = []
    for rows in (before, after):
        known = [tuple((name, canonical(value)) for name, value in row.items()) for row in rows]
        originals |= dict(zip(known, rows, strict=True))
        counts.append(Counter(known))
    removed = list((counts[0] - counts[1]).elements())
    added = list((counts[1] - counts[0]).elements())
    if key:
        removed, added = _paired(found, removed, added, key, originals, tolerances or {})
    found.removed, found.added = len(removed), len(added)
    return found


def _paired(
    found: Expected,
    removed: list[Any],
    added: list[Any],
    key: Sequence[str],
    originals: dict[Any, Row],
    tolerances: dict[str, Decimal],
) -> tuple[list[Any], list[Any]]:
    sides: dict[Any, tuple[list[Any], list[Any]]] = {}
    rest: tuple[list[Any], list[Any]] = ([], [])
    for side, rows in enumerate((removed, added)):
        for row in rows:
            values = tuple(dict(row)[name] for name in key)
            if None in values:
                found.null_keys += 1
                rest[side].append(row)
            else:
                sides.setdefault(values, ([], []))[side].append(row)
    for old, new in sides.values():
        if len(old) == len(new) == 1:
            _count_changes(found, dict(old[0]), dict(new[0]), originals[old[0]], originals[new[0]], tolerances)
            continue
        found.ambiguous_keys += len(old) > 1 or len(new) > 1
        rest[0].extend(old)
        rest[1].extend(new)
    return rest


def _count_changes(
    found: Expected, old: Row, new: Row, before: Row, after: Row, tolerances: dict[str, Decimal]
) -> None:
    differing = [
        name
        for name in old
        if old[name] != new[name] and not (name in tolerances and _near(before[name], after[name], tolerances[name]))
    ]
    found.changed += bool(differing)
    for name in differing:
        found.columns[name] = found.columns.get(name, 0) + 1
        found.changes.setdefault(name, Counter())[old[name], new[name]] += 1


def _near(one: Any, other: Any, tolerance: Decimal) -> bool:
    if one is None or other is None:
        return False
    if isinstance(one, Decimal):
        return bool(abs(one - other) <= tolerance)
    return bool(abs(one - other) <= float(tolerance) + 4 * np.finfo(float).eps * max(abs(one), abs(other)))


def statistics(values: Sequence[Any]) -> dict[str, Any]:
    """What is known of a column's values, exactly."""
    valid = [value for value in values if value is not None]
    numbers = [value for value in valid if not (isinstance(value, float) and math.isnan(value))]
    ordered = [value for value in numbers if not isinstance(value, dict | list | bytes)]
    return {
        "rows": len(values),
        "nulls": len(values) - len(valid),
        "nans": len(valid) - len(numbers),
        "distinct": len({canonical(value) for value in valid}),
        "min": min(ordered, default=None),
        "max": max(ordered, default=None),
    }
