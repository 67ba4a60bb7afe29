"""Other spellings of a request's values: those that differ only in letter case or spaces, if the request ignores these.

Each stored spelling is registered as a separate value, so that everything else works on exact values: reads, search,
bounds and bloom filters, delete files, rewriting, proof and digests. Spellings are searched when a request is
registered and again by each hide, purge and proof, in the key columns of every Parquet file stored for a table,
referenced or not. A spelling that arrives in between is visible to reads until the next search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.files.reachable import reachable_set
from lakewarden.engine.proof.objects import places
from lakewarden.engine.rows.column_texts import column_names, column_texts
from lakewarden.engine.rows.new_since import Arrival, Mark, arrivals
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import BrokenTable
from lakewarden.records.erasure import ErasureRequest, ErasureState, Folding, HiddenKey, KeyAsked

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.ground import Reader, Writer

TEXT = "string"
_READERS = 4
Spellings = Mapping[str, Mapping[int, set[str]]]
"""By request and index of its key."""


def spellings_of(key: KeyAsked, texts: Iterable[str], folding: Folding) -> list[str]:
    """The values to register: as given and, if the request ignores spellings, also folded."""
    given = list(texts)
    return [*given, *(folding.of(text) for text in given)] if folding and key.kind == TEXT else given


def respell(
    lake: Writer, name: TableName, table: Table, requests: Sequence[str], skip_unreadable: bool = False
) -> None:
    """Register the spellings that are stored now, before a request's values are used."""
    for request, found in new_spellings(lake, name, table, requests, skip_unreadable).items():
        lake.state.erasure.extend(request, {place: sorted(texts) for place, texts in found.items()})


def with_spellings(
    lake: Reader, keys: Sequence[HiddenKey], found: Spellings, requests: Sequence[str]
) -> list[HiddenKey]:
    """The keys including new spellings, for callers that must not register them."""
    added: dict[tuple[int, str], set[str]] = {}
    for request in (request for request in requests if request in found):
        asked = lake.state.erasure.get(request).keys
        for place, texts in found[request].items():
            added.setdefault((asked[place].field_id, asked[place].kind), set()).update(texts)
    if not added:
        return list(keys)
    return [replace(key, values=sorted({*key.values, *added.get((key.field_id, key.kind), ())})) for key in keys]


def new_spellings(
    lake: Reader, name: TableName, table: Table, requests: Sequence[str], skip_unreadable: bool = False
) -> Spellings:
    """Stored spellings that the requests do not have yet; reads nothing if no request ignores spellings."""
    uuid = str(table.metadata.table_uuid)
    asked = lake.state.erasure.many(requests)
    folded = [request for request in asked if request.folding and request.state is ErasureState.OPEN]
    wanted = [each for request in folded for each in _wanted(lake, uuid, request)]
    if not wanted:
        return {}
    found: dict[str, dict[int, set[str]]] = {}
    for id, texts in stored_texts(lake, name, table, {one.field_id for one in wanted}, skip_unreadable):
        for one in wanted:
            new = {text for text in texts if one.is_new(text)} if one.field_id == id else ()
            if new:
                found.setdefault(one.request.id, {}).setdefault(one.place, set()).update(new)
    return found


@dataclass(frozen=True)
class _Wanted:
    """One text key of a request: its known spellings, and their folded form."""

    request: ErasureRequest
    place: int
    field_id: int
    known: frozenset[str] = field(repr=False)
    folded: frozenset[str] = field(repr=False)

    def is_new(self, text: str) -> bool:
        return text not in self.known and self.request.folding.of(text) in self.folded


def _wanted(lake: Reader, uuid: str, request: ErasureRequest) -> Iterator[_Wanted]:
    hidden = {key.field_id: key.values for key in lake.state.erasure.hidden(uuid, [request.id]) if key.kind == TEXT}
    for place, key in enumerate(request.keys):
        if key.uuid == uuid and key.kind == TEXT:
            known = frozenset(hidden.get(key.field_id, ()))
            folded = frozenset(request.folding.of(text) for text in known)
            yield _Wanted(request, place, key.field_id, known, folded)


def stored_texts(
    lake: Reader, name: TableName, table: Table, fields: set[int], skip_unreadable: bool = False
) -> Iterator[tuple[int, set[str]]]:
    """The distinct texts of some columns, by field id: in every version and in unreferenced files."""
    storage, kinds = lake.storage(name.lake), dict.fromkeys(fields, TEXT)
    names = column_names(table.metadata, fields)
    left_behind = list(_left_behind(table, storage))
    strays = {file.path for file in left_behind}

    def read(file: Arrival) -> list[tuple[int, set[str]]]:
        try:
            return [(id, set(counts)) for id, counts in column_texts(storage, file, kinds, names)]
        except FileNotFoundError:
            return []  # it expired in the meantime
        except BrokenTable:
            if file.path in strays or skip_unreadable:
                return []
            raise

    files = [file for file in arrivals(table, Mark()) if file.format == "parquet"]
    with (
        Redaction.of(table.metadata, sorted(fields)).of_errors(),
        ThreadPoolExecutor(_READERS, thread_name_prefix="spelling") as readers,
    ):
        for found in readers.map(read, [*files, *left_behind]):
            yield from found


def _left_behind(table: Table, storage: StoredFiles) -> Iterator[Arrival]:
    """Unreferenced Parquet files in the table's folders, including quarantine."""
    needed = reachable_set(table)
    for place in places(table):
        for file in storage.walk(place):
            if file.path.endswith(".parquet") and file.path not in needed:
                yield Arrival(file.path, file.bytes, 0, "data", "parquet", 0, {})
