"""The values of a request's keys with the names of their tables, to find what Lakewarden keeps of them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.features.erasure.requests.current_names import current_name
from lakewarden.features.shared.side_tables import is_kept
from lakewarden.records.erasure import Folding

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.records.erasure import ErasureRequest, KeyAsked

_TEXTS = ("string", "uuid")
_LONG = 6


@dataclass(frozen=True)
class AskedValues:
    """The values of one key, as canonical texts."""

    key: KeyAsked
    tables: frozenset[str]
    """The names that its table has, or had when the request was made."""
    values: frozenset[str] = field(repr=False)

    def is_in(self, table: str) -> bool:
        """Whether the key is in this table, whose name may lack the lake."""
        return any(table in (name, name.partition(".")[2]) for name in self.tables)

    def is_of(self, table: str, column: str) -> bool:
        """Whether the key is this column."""
        return self.is_in(table) and column.lower() == self.key.path.lower()


def are_at(asked: Sequence[AskedValues], place: str, value: object, folding: Folding = Folding.NONE) -> bool:
    """Whether a value that is noted for a column, given as TABLE.COLUMN, is one of these.

    If the column is not known, or the keys are of other tables, the names say nothing and any value counts. So does a
    text that stands out, wherever it is: a proof finds it in metadata.
    """
    text, (table, _, column) = folding.of(str(value)), place.rpartition(".")
    there = [one for one in asked if text in one.values]
    if not any(one.is_in(table) for one in asked):
        return bool(there)
    return any(one.is_of(table, column) or (one.key.kind in _TEXTS and len(text) >= _LONG) for one in there)


def asked_values(lake: Reader, requests: Sequence[ErasureRequest]) -> list[AskedValues]:
    """The values of some open requests, without those of columns in which Lakewarden keeps values of other tables."""
    ids = [request.id for request in requests]
    keys = {key for request in requests for key in request.keys if not is_kept(key.table, key.path)}
    found = []
    for uuid in sorted({key.uuid for key in keys}):
        hidden = {key.field_id: frozenset(key.values) for key in lake.state.erasure.hidden(uuid, ids)}
        for key in (key for key in keys if key.uuid == uuid):
            tables = frozenset((key.table, current_name(lake, key.table, uuid)))
            found.append(AskedValues(key, tables, hidden.get(key.field_id, frozenset())))
    return found
