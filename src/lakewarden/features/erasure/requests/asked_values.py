"""The values of a request's keys with the names of their tables, to find what Lakewarden keeps of them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.errors import LakewardenError
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
    columns: frozenset[str] = frozenset()
    """The names that its column has had, in lower case."""
    known: frozenset[str] = frozenset()
    """The names that any column of its table has had, in lower case."""

    def is_in(self, table: str) -> bool:
        """Whether the key is in this table, whose name may lack the lake."""
        return any(table in (name, name.partition(".")[2]) for name in self.tables)

    def is_of(self, table: str, column: str) -> bool:
        """Whether the key is this column, or was when it had this name."""
        return self.is_in(table) and column.lower() in {self.key.path.lower(), *self.columns}

    def knows(self, table: str, column: str) -> bool:
        """Whether this is a column that its table has, or had: a rename leaves notes with the former name."""
        return self.is_in(table) and column.lower() in {self.key.path.lower(), *self.known}


def are_at(asked: Sequence[AskedValues], place: str, value: object, folding: Folding = Folding.NONE) -> bool:
    """Whether a value that is noted for a column, given as TABLE.COLUMN, is one of these.

    If no table of the keys has had the column, the names say nothing and any value counts. So does a text that stands
    out, wherever it is: a proof finds it in metadata.
    """
    text, (table, _, column) = folding.of(str(value)), place.rpartition(".")
    there = [one for one in asked if text in one.values]
    if not any(one.knows(table, column) for one in asked):
        return bool(there)
    return any(one.is_of(table, column) or (one.key.kind in _TEXTS and len(text) >= _LONG) for one in there)


def names_of(lake: Reader, keys: Iterable[KeyAsked]) -> list[AskedValues]:
    """Keys with the names of their tables and columns, but without values.

    Keys that are columns in which Lakewarden keeps values of other tables are left out.
    """
    wanted = dict.fromkeys(key for key in keys if not is_kept(key.table, key.path))
    with lake.tables.at_one_moment():
        return [_named(lake, key) for key in sorted(wanted, key=lambda key: key.uuid)]


def asked_values(
    lake: Reader, requests: Sequence[ErasureRequest], names: Sequence[AskedValues] | None = None
) -> list[AskedValues]:
    """The values of some open requests, for the keys in `names_of`, which can be given if they are known."""
    keys = dict.fromkeys(key for request in requests for key in request.keys)
    mine = [one for one in names if one.key in keys] if names is not None else names_of(lake, keys)
    found, ids = [], [request.id for request in requests]
    for uuid in dict.fromkeys(one.key.uuid for one in mine):
        hidden = {key.field_id: frozenset(key.values) for key in lake.state.erasure.hidden(uuid, ids)}
        same = (one for one in mine if one.key.uuid == uuid)
        found += [replace(one, values=hidden.get(one.key.field_id, frozenset())) for one in same]
    return found


def _named(lake: Reader, key: KeyAsked) -> AskedValues:
    now = current_name(lake, key.table, key.uuid)
    try:
        metadata = lake.tables.load(now).metadata
        schemas = metadata.schemas if str(metadata.table_uuid) == key.uuid else []
    except LakewardenError:  # nothing is known of its columns: all that is noted for them counts
        schemas = []
    columns = {name.lower() for schema in schemas if (name := schema.find_column_name(key.field_id)) is not None}
    known = {name.lower() for schema in schemas for name in schema.column_names}
    return AskedValues(key, frozenset((key.table, now)), frozenset(), frozenset(columns), frozenset(known))
