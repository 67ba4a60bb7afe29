"""Rows in a form that can be compared, whichever reader they come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

Fields = Sequence[dict[str, Any]]


def comparable(rows: Iterable[dict[str, Any]], fields: Fields) -> Counter[str]:
    """Each row as text, with how often it occurs; columns are those of a schema as metadata files have it.

    NaN is like itself here, and 0.0 is unlike -0.0.
    """
    return Counter(json.dumps(_struct(row, fields), sort_keys=True, ensure_ascii=False) for row in rows)


def _struct(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    assert set(row) == {field["name"] for field in fields}, f"columns {sorted(row)}"
    return {field["name"]: _cell(row[field["name"]], field["type"]) for field in fields}


def _cell(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, dict):
        return _nested(value, kind)
    if kind in ("float", "double"):
        return repr(float(value))
    if kind == "uuid":
        return str(UUID(bytes=value) if isinstance(value, bytes) else value)
    if kind == "timestamptz":
        return value.astimezone(UTC).isoformat()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)


def _nested(value: Any, kind: dict[str, Any]) -> Any:
    if kind["type"] == "struct":
        return _struct(value, kind["fields"])
    if kind["type"] == "list":
        return [_cell(item, kind["element"]) for item in value]
    pairs: Any = value.items() if isinstance(value, dict) else value
    return sorted([_cell(key, kind["key"]), _cell(item, kind["value"])] for key, item in pairs)


def difference(found: Counter[str], expected: Counter[str]) -> str:
    """What is missing and what is too many, in a few lines; nothing if they are the same."""
    missing, extra = (list(map(json.loads, (one - other).elements())) for one, other in
                      ((expected, found), (found, expected)))  # fmt: skip
    if not missing and not extra:
        return ""
    told = [f"{len(missing)} missing, {len(extra)} too many of {expected.total()}"]
    for row in missing[:3]:
        like = next((other for other in extra if other["id"] == row["id"]), None)
        told.append(f"missing id {row['id']}" if like is None else f"id {row['id']}: " + _unlike(row, like))
    strange = [row["id"] for row in extra if row["id"] not in [other["id"] for other in missing]]
    return "\n".join([*told, *(f"too many: id {id}" for id in strange[:3])])


def _unlike(row: dict[str, Any], other: dict[str, Any]) -> str:
    return ", ".join(f"{name} {other[name]!r} for {row[name]!r}" for name in row if row[name] != other[name])
