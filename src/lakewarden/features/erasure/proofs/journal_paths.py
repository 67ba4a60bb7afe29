"""Redacts erased values in file paths that the journal lists.

If a table is partitioned by its key, the paths of its files contain the value or its beginning, and plans of compaction
and retention list those paths. After a clean proof, the value in such paths is replaced by `*`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus

from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.engine.rows.redaction import revealing_fields

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.lifecycle.ground import Writer
    from lakewarden.records.erasure import HiddenKey


def redact_paths(lake: Writer, table: str, metadata: TableMetadata, keys: Sequence[HiddenKey]) -> None:
    """Redact the values in all paths of a table that the journal lists."""
    spelled = spellings(metadata, keys)
    if spelled:
        marks = [f"{name}=" for name in spelled]
        lake.state.erasure.redact(table, str(metadata.table_uuid), marks, redactor(spelled))


def spellings(metadata: TableMetadata, keys: Sequence[HiddenKey]) -> dict[str, frozenset[str]]:
    """How paths spell the values, by name of the partition field, before encoding."""
    found: dict[str, frozenset[str]] = {}
    for key in [KeyValues(key) for key in keys if key.values]:
        for name, field in revealing_fields(metadata, [key.field_id]):
            found[name] = found.get(name, frozenset()) | key.spelled(field.transform)
    return found


def redactor(spelled: Mapping[str, frozenset[str]]) -> Callable[[str], str]:
    """A function that replaces the values in any text by `*`."""
    names = "|".join(re.escape(name) for name in sorted(spelled, key=len, reverse=True))
    component = re.compile(rf"(?<=/)({names})=([^/]*)(?=/)")

    def hidden(found: re.Match[str]) -> str:
        return found[0] if spelled[found[1]].isdisjoint(_readings(found[2])) else f"{found[1]}=*"

    return lambda text: component.sub(hidden, text)


def _readings(part: str) -> Iterator[str]:
    """The values that part of a path may stand for: plain, or encoded by Iceberg or Hive, and each escaped in JSON."""
    for plain in (part, _from_json(part)) if "\\" in part else (part,):
        yield from (plain, unquote_plus(plain), unquote(plain))


def _from_json(part: str) -> str:
    try:
        return str(json.loads(f'"{part}"'))
    except ValueError:
        return part
