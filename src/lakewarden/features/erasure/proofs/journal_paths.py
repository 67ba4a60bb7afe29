"""Forgetting what the journal tells of people: paths of files that lay in a partition of their own.

A table that is partitioned by its key has the value, or the beginning of it, in the paths of its files, and plans of
compaction and retention list those. Once a proof has found nothing left, such paths are told with `*` in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus

from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.engine.rows.redaction import telling_fields

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.lifecycle.ground import Writer
    from lakewarden.records.erasure import HiddenKey


def redact_paths(lake: Writer, table: str, metadata: TableMetadata, keys: Sequence[HiddenKey]) -> None:
    """Have the journal tell no path any more that tells of one of the values."""
    spelled = spellings(metadata, keys)
    if spelled:
        marks = [f"{name}=" for name in spelled]
        lake.state.erasure.veil(table, str(metadata.table_uuid), marks, redactor(spelled))


def spellings(metadata: TableMetadata, keys: Sequence[HiddenKey]) -> dict[str, frozenset[str]]:
    """What the values are called in paths, by the name of the partition field, before paths encode them."""
    found: dict[str, frozenset[str]] = {}
    for key in [KeyValues(key) for key in keys if key.values]:
        for name, field in telling_fields(metadata, [key.field_id]):
            found[name] = found.get(name, frozenset()) | key.spelled(field.transform)
    return found


def redactor(spelled: Mapping[str, frozenset[str]]) -> Callable[[str], str]:
    """What puts `*` in the place of the values, within any text."""
    names = "|".join(re.escape(name) for name in sorted(spelled, key=len, reverse=True))
    component = re.compile(rf"(?<=/)({names})=([^/]*)(?=/)")

    def hidden(found: re.Match[str]) -> str:
        return found[0] if spelled[found[1]].isdisjoint(_readings(found[2])) else f"{found[1]}=*"

    return lambda text: component.sub(hidden, text)


def _readings(part: str) -> Iterator[str]:
    """What a part of a path may spell: as it is, or encoded by Iceberg or by Hive, and each within a JSON text."""
    for plain in (part, _from_json(part)) if "\\" in part else (part,):
        yield from (plain, unquote_plus(plain), unquote(plain))


def _from_json(part: str) -> str:
    try:
        return str(json.loads(f'"{part}"'))
    except ValueError:
        return part
