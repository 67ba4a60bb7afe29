"""Searches for orphans of one table: lists the files under its locations and checks whether each is needed.

A table may have very many files, so only candidates are kept, and on disk once they are many. A commit that lands
during the listing references files that were unknown before, so candidates are checked again with the metadata
at the end of the listing.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

from lakewarden.engine.base.locations import is_below
from lakewarden.engine.files.reachable import own_places, reachable_set
from lakewarden.engine.storage.quarantine import OWN_FOLDER
from lakewarden.engine.storage.storage import StoredFile
from lakewarden.errors import DeletionForbidden, StalePlan
from lakewarden.features.orphan.judgement import Judge, is_hidden, kind_of, refuse_forbidden
from lakewarden.features.orphan.neighbours import Neighbours, is_metadata, refuse_foreign
from lakewarden.features.orphan.unfinished import Unfinished

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader

log = logging.getLogger(__name__)
_IN_MEMORY = 1 << 20  # bytes of candidates before they are written to disk
_SECONDS_BETWEEN_LOGS = 3
_turns = threading.BoundedSemaphore(4)  # tables listed at once; several threads list each of them


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no version of its table needs."""

    path: str
    bytes: int
    modified_at: datetime
    kind: str


@dataclass(frozen=True)
class Searched:
    """The result of a search for a table's orphans."""

    table: Table
    orphans: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    kept: Counter[str] = field(default_factory=Counter)


def search(
    lake: Reader, name: TableName, before: datetime, neighbours: Neighbours, take: Callable[[Orphan], None]
) -> Searched:
    """Pass every orphan that was written before a time to `take`; refused if orphans cannot be determined safely."""
    table = lake.tables.load(name)
    refuse_forbidden(name, table)
    neighbours.refuse_shared(name, table)
    with _turns, SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8") as found:
        listing = _Listing(lake, name, table, before)
        for file in listing.candidates():
            _put(found, file)
        refuse_foreign(name, table, lake.storage(name.lake), listing.unnamed_metadata)
        latest = lake.tables.load(name)
        if latest.metadata.table_uuid != table.metadata.table_uuid:
            raise StalePlan(f"{name} was recreated during the search: its UUID differs", "Search again.")
        return _confirmed(latest, Judge(name, reachable_set(latest), before, listing.unfinished), found, take, listing)


class _Listing:
    """One pass over all files under a table's locations."""

    def __init__(self, lake: Reader, name: TableName, table: Table, before: datetime) -> None:
        self._storage = lake.storage(name.lake)
        self._name = name
        self._places = own_places(table)
        self._needed = reachable_set(table)
        self.unfinished = Unfinished(lake)
        self._judge = Judge(name, self._needed, before, self.unfinished)
        self.kept: Counter[str] = Counter()
        self.unnamed_metadata: list[str] = []

    def candidates(self) -> Iterator[StoredFile]:
        for place in self._places:
            if not any(is_below(place, other) for other in self._places):
                yield from self._candidates_at(place)

    def _candidates_at(self, place: str) -> Iterator[StoredFile]:
        met = Counter[str]()
        with closing(self._storage.walk(place, without=[OWN_FOLDER])) as stored:
            for file in _logged(place, stored):
                if is_hidden(file.path[len(place) + 1 :]):
                    continue
                verdict = self._judge.verdict(file)
                met[verdict] += 1
                if verdict != "needed" and is_metadata(file.path):
                    self.unnamed_metadata.append(file.path)
                if verdict == "orphan":
                    yield file
        self._refuse_unless_known(place, met)
        self.kept += met

    def _refuse_unless_known(self, place: str, met: Counter[str]) -> None:
        """If only orphans are found, the metadata may reference the same files by another path."""
        may_be_empty = place != self._places[0] and not self._needed.has_data
        if met["orphan"] and not met["needed"] and not may_be_empty:
            raise DeletionForbidden(
                f"{self._name}: its metadata references none of the {met.total()} files at {place}",
                "Its metadata may use another path for that location, for example through a link. Compare the paths: "
                f"lakewarden table show {self._name}",
            )


def _confirmed(
    latest: Table, judge: Judge, found: IO[str], take: Callable[[Orphan], None], listing: _Listing
) -> Searched:
    orphans, size, oldest = 0, 0, None
    found.seek(0)
    for line in found:
        path, length, seconds = json.loads(line)
        if judge.is_needed(path):
            continue
        orphan = Orphan(path, length, datetime.fromtimestamp(seconds, UTC), kind_of(path))
        orphans, size = orphans + 1, size + length
        oldest = min(oldest or orphan.modified_at, orphan.modified_at)
        take(orphan)
    return Searched(latest, orphans, size, oldest, listing.kept)


def _put(found: IO[str], file: StoredFile) -> None:
    assert file.modified_at is not None  # files of unknown age are no candidates
    found.write(json.dumps([file.path, file.bytes, file.modified_at.timestamp()]) + "\n")


def _logged(place: str, files: Iterator[StoredFile]) -> Iterator[StoredFile]:
    """The same files; logs the count every few seconds."""
    next_log = time.monotonic() + _SECONDS_BETWEEN_LOGS
    for number, file in enumerate(files):
        if number % 1000 == 999 and time.monotonic() >= next_log:
            log.info("%s files listed at %s", f"{number + 1:,}", place)
            next_log = time.monotonic() + _SECONDS_BETWEEN_LOGS
        yield file
