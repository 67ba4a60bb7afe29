"""Forgetting what the journal tells of people: paths of files that lay in a partition of their own.

A table that is partitioned by its key has the value, or the beginning of it, in the paths of its files, and plans of
compaction and retention list those. Once a proof has found nothing left, such paths are told with `*` in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from lakewarden.engine.key_values import KeyValues
from lakewarden.engine.veil import telling_fields

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.lifecycle.ground import Writer
    from lakewarden.lifecycle.tombstones import HiddenKey


def forget_paths(lake: Writer, table: str, metadata: TableMetadata, keys: Sequence[HiddenKey]) -> None:
    """Have the journal tell no path any more that tells of one of the values."""
    spelled = spellings(metadata, keys)
    if spelled:
        marks = [f"{name}=" for name in spelled]
        lake.tombstones.veil(table, str(metadata.table_uuid), marks, veil_of(spelled))


def spellings(metadata: TableMetadata, keys: Sequence[HiddenKey]) -> dict[str, frozenset[str]]:
    """What the values are called in paths, by the name of the partition field, before paths encode them."""
    found: dict[str, frozenset[str]] = {}
    for key in [KeyValues(key) for key in keys if key.values]:
        for name, field in telling_fields(metadata, [key.field_id]):
            found[name] = found.get(name, frozenset()) | key.spelled(field.transform)
    return found


def veil_of(spelled: Mapping[str, frozenset[str]]) -> Callable[[str], str]:
    """What puts `*` in the place of the values, within any text."""
    names = "|".join(re.escape(name) for name in sorted(spelled, key=len, reverse=True))
    component = re.compile(rf"(?<=/)({names})=([^/]*)(?=/)")

    def hidden(found: re.Match[str]) -> str:
        values = spelled[found[1]]
        return f"{found[1]}=*" if unquote_plus(found[2]) in values or found[2] in values else found[0]

    return lambda text: component.sub(hidden, text)
