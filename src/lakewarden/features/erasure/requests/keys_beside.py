"""What a request covers in the tables that Lakewarden keeps beside others: bad rows of backfills, empty partitions.

They have values of the table that they stand beside, and of those that it is made of. As keys of the request, these are
hidden, purged from every version, and proved like all others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.requests.spelling import stored_texts
from lakewarden.features.shared.side_tables import side_tables
from lakewarden.records.erasure import Folding, KeyAsked

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence, Set

    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader


def keys_beside(
    lake: Reader, keys: Sequence[KeyAsked], values: Set[str], folding: Folding
) -> tuple[dict[KeyAsked, list[str]], list[str]]:
    """The texts with one of the values in tables beside those of a request, by key; and tables that cannot be read."""
    asked = {key.table for key in keys}
    folded = {folding.of(value) for value in values}
    found: dict[KeyAsked, list[str]] = {}
    unread: list[str] = []
    for name in _beside(lake, asked):
        try:
            found |= _keys_in(lake, name, folded, folding)
        except LakewardenError as error:
            unread.append(f"{name} ({error.message})")
    return found, unread


def _keys_in(lake: Reader, name: TableName, folded: Set[str], folding: Folding) -> dict[KeyAsked, list[str]]:
    """The texts with one of the values in one table; none if it only has the name of a table of ours."""
    found: dict[KeyAsked, list[str]] = {}
    table = lake.tables.load(name)
    column = next(column for suffix, column in side_tables().items() if name.table.endswith(suffix))
    if not any(column in schema.column_names for schema in table.metadata.schemas):
        return {}
    for key in find_keys(table.metadata, column, str(name)):
        stored = stored_texts(lake, name, table, {key.field_id}, skip_unreadable=True)
        texts = {text for _, some in stored for text in some if not folded.isdisjoint(_values_in(text, folding))}
        if texts:
            uuid = str(table.metadata.table_uuid)
            found[KeyAsked(str(name), uuid, key.path, key.field_id, key.kind)] = sorted(texts)
    return found


def _values_in(text: str, folding: Folding) -> list[str]:
    """The values that a text of a table beside others has: itself, and if it is a tuple as JSON, its elements."""
    try:
        elements = json.loads(text)
    except ValueError:
        elements = []
    return [folding.of(str(each)) for each in (text, *(elements if isinstance(elements, list) else ()))]


def _beside(lake: Reader, asked: Collection[str]) -> list[TableName]:
    """The tables beside those with these names, and beside those that were made of them."""
    names = lake.tables.names()
    sides = [name for name in names if str(name) not in asked and name.table.endswith(tuple(side_tables()))]

    def is_about(side: TableName) -> bool:
        suffix = next(suffix for suffix in side_tables() if side.table.endswith(suffix))
        base = replace(side, table=side.table.removesuffix(suffix))
        if str(base) in asked or base not in names:
            return True
        return made_of(lake.tables.load(base), asked)

    return [name for name, is_one in zip(sides, lake.tables.read_all(sides, is_about), strict=True) if is_one]


def made_of(table: Table, others: Collection[str]) -> bool:
    """Whether what Lakewarden notes with a table names one of the others, as it does if it wrote rows of these."""
    within = {other.partition(".")[2] for other in others}
    notes = [*table.metadata.properties.values()]
    notes += [
        value for one in table.metadata.snapshots if one.summary for value in one.summary.additional_properties.values()
    ]
    return any(name in note for note in notes for name in within)
