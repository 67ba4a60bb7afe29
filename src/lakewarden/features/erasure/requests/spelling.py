"""Other spellings of a request's values: those that differ only in what the request ignores, letter case or spaces.

A spelling that is stored is registered as a value of its own, so that everything else works on exact values: reads,
search, bounds and bloom filters, delete files, rewriting, proof and digests. Spellings are looked for when a request is
registered and again by each hide, purge and proof, in the key columns of every Parquet file that is stored of a table,
whether a version references it or not. One that arrives in between is seen by reads until the next look.
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
from lakewarden.engine.rows.redaction import Veil
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
"""By request and by the place of its key."""


def spellings_of(key: KeyAsked, texts: Iterable[str], folding: Folding) -> list[str]:
    """Values as they are registered: as given, and where spellings are ignored also as all of them become."""
    given = list(texts)
    return [*given, *(folding.of(text) for text in given)] if folding and key.kind == TEXT else given


def respell(
    lake: Writer, name: TableName, table: Table, requests: Sequence[str], skip_unreadable: bool = False
) -> None:
    """Register the spellings that are stored by now, before a request's values are read."""
    for request, found in new_spellings(lake, name, table, requests, skip_unreadable).items():
        lake.state.erasure.extend(request, {place: sorted(texts) for place, texts in found.items()})


def with_spellings(
    lake: Reader, keys: Sequence[HiddenKey], found: Spellings, requests: Sequence[str]
) -> list[HiddenKey]:
    """The keys of requests as they will be once spellings that were found are registered: for what only looks."""
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
    """Stored spellings of values that requests do not have yet; nothing is read where none ignores anything."""
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
    """One key of text of a request: the spellings it has, and what all of them become."""

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
    """The different texts of some columns, by field id: of every version, and of files that none references."""
    storage, kinds = lake.storage(name.lake), dict.fromkeys(fields, TEXT)
    names = column_names(table.metadata, fields)
    left_behind = list(_left_behind(table, storage))
    strays = {file.path for file in left_behind}

    def read(file: Arrival) -> list[tuple[int, set[str]]]:
        try:
            return [(id, set(counts)) for id, counts in column_texts(storage, file, kinds, names)]
        except FileNotFoundError:
            return []  # it went with its versions meanwhile
        except BrokenTable:
            if file.path in strays or skip_unreadable:
                return []
            raise

    files = [file for file in arrivals(table, Mark()) if file.format == "parquet"]
    with (
        Veil.of(table.metadata, sorted(fields)).over_errors(),
        ThreadPoolExecutor(_READERS, thread_name_prefix="spelling") as readers,
    ):
        for found in readers.map(read, [*files, *left_behind]):
            yield from found


def _left_behind(table: Table, storage: StoredFiles) -> Iterator[Arrival]:
    """Parquet files in the table's folders that no version references, in quarantine too."""
    needed = reachable_set(table)
    for place in places(table):
        for file in storage.walk(place):
            if file.path.endswith(".parquet") and file.path not in needed:
                yield Arrival(file.path, file.bytes, 0, "data", "parquet", 0, {})
