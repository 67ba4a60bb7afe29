"""Finds erased values that came back, by the digests of closed requests, and registers new requests for them.

Values are in memory only while files are read. What is recorded has counts and files, but no values.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.rows.column_texts import column_names, column_texts
from lakewarden.engine.rows.keys import canonical
from lakewarden.engine.rows.new_since import Arrival, Mark, arrivals, fingerprint
from lakewarden.errors import BadValue, BrokenTable
from lakewarden.features.erasure.requests.current_names import find_table
from lakewarden.features.erasure.requests.request_keys import grace_of
from lakewarden.features.erasure.requests.spelling import spellings_of
from lakewarden.records.erasure import ErasureRequest

if TYPE_CHECKING:
    from datetime import datetime

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import HiddenKey, KeyAsked, Recognizer

_READERS = 8
Value = tuple[int, str]  # a column's field id, and a value as its canonical text


@dataclass
class Returned:
    """What came back for one request."""

    rows: int = 0
    files: set[str] = field(default_factory=set)
    values: set[Value] = field(default_factory=set, repr=False)

    @property
    def number(self) -> int:
        return len(self.values)


@dataclass
class Seen:
    """What was read, and what was found: rows by request, value and file."""

    files: int = 0
    rows: int = 0
    unreadable: int = 0
    missing: list[str] = field(default_factory=list)
    returned: dict[tuple[str, Value], Counter[str]] = field(default_factory=dict, repr=False)

    def add(self, other: Seen) -> None:
        self.files, self.rows = self.files + other.files, self.rows + other.rows
        self.unreadable += other.unreadable
        self.missing += other.missing
        for found, rows in other.returned.items():
            self.returned.setdefault(found, Counter()).update(rows)

    def without(self, hidden: Iterable[HiddenKey]) -> dict[str, Returned]:
        """What came back for each request, without values of open requests. A value of several closed requests
        counts for the newest, which has the last id in order."""
        asked = {(key.field_id, text) for key in hidden for text in key.values}
        newest: dict[Value, str] = {}
        for request, value in self.returned:
            newest[value] = max(request, newest.get(value, ""))
        found: dict[str, Returned] = {}
        for (request, value), rows in self.returned.items():
            if value not in asked and newest[value] == request:
                one = found.setdefault(request, Returned())
                one.rows += rows.total()
                one.files |= rows.keys()
                one.values.add(value)
        return found


def read_all(lake: Writer, table: str, recognizer: Recognizer, files: Sequence[Arrival], since: Mark) -> Seen:
    """Read files in parallel. A file that expired in the meantime is left out."""
    metadata, storage = lake.tables.load(table).metadata, lake.storage(lake.tables.name(table).lake)
    names = column_names(metadata, {id for id, _ in recognizer.keys})
    seen = Seen()
    with ThreadPoolExecutor(_READERS, thread_name_prefix="watch") as readers:
        looked = readers.map(lambda file: _read(storage, file, recognizer, names), files)
        for number, one in enumerate(looked, start=1):
            seen.add(one)
            lake.progress(number, len(files))
    if seen.missing:
        lost = arrivals(lake.tables.load(table), since, {fingerprint(path) for path in seen.missing})
        still = {file.path for file in lost} & set(seen.missing)
        if still:
            raise BrokenTable(
                f"{table}: the file {min(still)} is missing", "Restore it, or expire the versions that need it."
            )
    return seen


def register(
    lake: Writer, table: TableName, uuid: str, came_back: Mapping[str, Returned], at: datetime
) -> dict[str, str]:
    """Register a new request for each request whose values came back to a table.

    It has the subject and the keys of the old request, in tables that still exist and by their current names. It is not
    registered if it would not cover what came back in this table.
    """
    asked: dict[str, str] = {}
    names = _Names(lake, {uuid: table})
    for id, one in came_back.items():
        old = lake.state.erasure.get(id)
        texts = sorted({text for _, text in one.values})
        values = {key: read for key in names.present(old.keys) if (read := _values(key, texts))}
        if not _asks_for(one.values, values, uuid):
            continue
        new = ErasureRequest(
            id=f"er-{at:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            created_at=at,
            requester=lake.stamp.actor,
            reason=f"came back after {id}",
            subject=old.subject,
            deadline=at + (old.deadline - old.created_at) if old.deadline else None,
            grace_until=at + grace_of(lake, values),
            keys=tuple(values),
            values=0,
            folding=old.folding,
        )
        spelled = (spellings_of(key, some, old.folding) for key, some in values.items())
        lake.state.erasure.add(new, {place: iter(some) for place, some in enumerate(spelled)})
        asked[id] = new.id
    return asked


def _read(storage: StoredFiles, file: Arrival, recognizer: Recognizer, names: Mapping[int, str]) -> Seen:
    if file.format != "parquet":
        return Seen(unreadable=1)
    seen = Seen(files=1, rows=file.rows)
    kinds = dict(recognizer.keys)  # requests may know a promoted column by several types, with the same spelling
    try:
        for id, counts in column_texts(storage, file, kinds, names):
            for kind in (kind for key, kind in recognizer.keys if key == id):
                for request, texts in recognizer.find(id, kind, counts).items():
                    for text in texts:
                        seen.returned.setdefault((request, (id, text)), Counter())[file.path] += counts[text]
    except FileNotFoundError:
        return Seen(missing=[file.path])
    return seen


class _Names:
    """The current names of tables by uuid, looked up once."""

    def __init__(self, lake: Reader, known: dict[str, TableName | None]) -> None:
        self._lake = lake
        self._known = known

    def present(self, keys: Iterable[KeyAsked]) -> list[KeyAsked]:
        """The keys of tables that still exist, with their current names."""
        named = [(key, self._of(key)) for key in keys]
        return [replace(key, table=str(name)) for key, name in named if name is not None]

    def _of(self, key: KeyAsked) -> TableName | None:
        if key.uuid not in self._known:
            self._known[key.uuid] = find_table(self._lake, key.table, key.uuid)
        return self._known[key.uuid]


def _asks_for(found: Iterable[Value], values: Mapping[KeyAsked, Sequence[str]], uuid: str) -> bool:
    """Whether a request with these values covers everything that was found in a table."""
    asked = {(key.field_id, text) for key, texts in values.items() if key.uuid == uuid for text in texts}
    return asked.issuperset(found)


def _values(key: KeyAsked, texts: Sequence[str]) -> list[str]:
    """The values in the spelling of a key; none if they do not fit its type."""
    try:
        return list(canonical(key.kind, texts, key.table))
    except BadValue:
        return []
