"""Looks for erased values in all that is stored of a table, and says where any is left.

Made to trust nothing that erases: objects come from listing storage, manifests are read by another library, and each
object is judged by its own content. Several threads look at objects; a bounded number of them is in memory. What an
object of each form tells is in the other `proof_*` modules. No value, and no path that tells one, leaves this module.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from lakewarden.engine.proof_keys import Around, Doubt, WantedKey, wanted_keys
from lakewarden.engine.proof_objects import (
    Listed,
    StoredObject,
    folders,
    listed,
    live_data,
    places,
    reach,
    size,
    stored_objects,
)
from lakewarden.engine.proof_reading import Looked, ObjectReader, stop
from lakewarden.engine.proof_survivors import unexplained
from lakewarden.engine.proof_texts import Texts
from lakewarden.engine.quarantine import OWN_FOLDER
from lakewarden.engine.veil import Veil

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.storage import StoredFiles
    from lakewarden.lifecycle.tombstones import HiddenKey

__all__ = ["NotRead", "Place", "Proof", "prove", "size"]

Progress = Callable[[int, int], None]
_THREADS = 8
_AHEAD = 32  # objects that are handed to threads before others are done
_MOST_ROUNDS = 4
_SECONDS_BETWEEN_WORDS = 0.5


@dataclass(frozen=True)
class Place:
    """Something that still holds a value."""

    object: str
    version: str
    where: str
    kind: str
    live: bool


@dataclass(frozen=True)
class NotRead:
    """An object that nothing can be said of."""

    object: str
    version: str
    why: str


@dataclass
class Proof:
    """What looking through all that is stored of a table came to."""

    metadata: str
    snapshots: int
    places: list[Place] = field(default_factory=list)
    young: list[Place] = field(default_factory=list)
    """In objects that nothing leads to, and that are so new that somebody may be about to commit them."""
    youngest: datetime | None = None
    """When the newest of these was written."""
    not_read: list[NotRead] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    method: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.places or self.young or self.not_read)


def prove(
    table: Table,
    keys: Sequence[HiddenKey],
    storage: StoredFiles,
    *,
    before: datetime,
    reload: Callable[[], Table] | None = None,
    progress: Progress | None = None,
) -> Proof:
    """Look through every object of a table for the values of keys.

    An object that nothing leads to and that was written after `before` is told apart. Where the table has moved on
    meanwhile, as `reload` tells, what came with that is looked through too.
    """
    looking = _Looking(table, keys, storage, before, progress)
    for _ in range(_MOST_ROUNDS):
        looking.round(table)
        latest = table if reload is None else reload()
        if latest.metadata_location == table.metadata_location:
            break
        table = latest
    return looking.proof(table)


class _Looking:
    """One proof while it is made."""

    def __init__(
        self,
        table: Table,
        keys: Sequence[HiddenKey],
        storage: StoredFiles,
        before: datetime,
        progress: Progress | None,
    ) -> None:
        self._storage = storage
        self._before = before
        self._progress = progress
        self._keys = wanted_keys(table.metadata, keys)
        self._veil = Veil.of(table.metadata, [key.field_id for key in self._keys])
        self._seen: set[int] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._read = self._total = 0
        self._told: list[Looked] = []
        self._kinds: Counter[str] = Counter()
        self._objects = self._bytes = 0
        self._problems: dict[tuple[str, str], str] = {}

    def round(self, table: Table) -> None:
        """Look at all that was not looked at before."""
        there = listed(table, self._storage)
        self._total = max(there.bytes, self._read)
        self._texts = Texts(table, self._keys, there.bytes)
        self._listed = there
        self._reached = reach(table, self._keys, self._storage, there.paths)
        for path in self._reached.not_read:
            self._problems[path, ""] = "the table's metadata leads to it, and it cannot be read"
        for place in places(table):
            if not self._storage.sees_versions(place):
                self._problems[place, ""] = "earlier versions of its objects cannot be seen: install lakewarden[s3]"
        reader = ObjectReader(table.metadata, self._keys, self._texts, self._storage, self._mind)
        with closing(self._looked(reader, self._objects_of(table))) as results:
            for looked in results:
                self._take(looked)

    def proof(self, table: Table) -> Proof:
        """What was found, once it is known which doubts a surviving row explains."""
        doubts = {trace.doubt for looked in self._told for trace in looked.traces if trace.doubt is not None}
        left: set[Doubt] = set()
        if doubts:
            with closing(live_data(self._reached, table, self._keys, self._storage)) as files:
                left = unexplained(doubts, self._keys, files, self._storage)
        proof = Proof(self._shown(table.metadata_location), len(table.metadata.snapshots))
        for looked in self._told:
            found = list(self._places(looked, left))
            if not self._is_young(looked):
                proof.places += found
            elif found:
                proof.young += found
                written = [at for at in (proof.youngest, looked.found.modified_at) if at]
                proof.youngest = max(written)
        proof.places.sort(key=lambda place: (not place.live, place.object, place.version, place.where))
        proof.not_read = [
            NotRead(self._veil.path(path), version, why) for (path, version), why in self._problems.items()
        ]
        proof.objects, proof.bytes, proof.by_kind = self._objects, self._bytes, dict(sorted(self._kinds.items()))
        proof.method = list(_method(self._keys, self._texts, self._listed, len(doubts) - len(left)))
        return proof

    def _objects_of(self, table: Table) -> Iterator[StoredObject]:
        with closing(stored_objects(table, self._storage)) as found:
            yield from (one for one in found if self._is_new(one))
        yield from (one for one in folders(table, self._storage) if self._is_new(one))
        elsewhere = iter(self._reached.elsewhere)
        while some := list(islice(elsewhere, 1000)):
            for path, file in self._storage.look(some).items():
                if file is not None and self._is_new(one := StoredObject(path, file.bytes, file.modified_at)):
                    yield one

    def _is_new(self, found: StoredObject) -> bool:
        mark = hash((found.path, found.version_id, found.bytes))
        if mark in self._seen:
            return False
        self._seen.add(mark)
        return True

    def _looked(self, reader: ObjectReader, objects: Iterator[StoredObject]) -> Generator[Looked, None, None]:
        """Look at objects in several threads, some ahead; progress is told while they are at it."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="prove") as threads:
            waiting: set[Future[Looked]] = set()
            try:
                while True:
                    for found in islice(objects, _AHEAD - len(waiting)):
                        waiting.add(threads.submit(reader.look, found, self._reached))
                    if not waiting:
                        return
                    done, waiting = wait(waiting, _SECONDS_BETWEEN_WORDS, FIRST_COMPLETED)
                    yield from (future.result() for future in done)
                    if self._progress:
                        self._progress(min(self._read, self._total), self._total)
            finally:
                self._stopped = True
                threads.shutdown(cancel_futures=True)
                self._stopped = False

    def _mind(self, read: int) -> None:
        if self._stopped:
            stop()
        with self._lock:
            self._read += read

    def _take(self, looked: Looked) -> None:
        if looked.kind == "gone":
            return
        if looked.found.bytes:
            self._objects, self._bytes = self._objects + 1, self._bytes + looked.found.bytes
            self._kinds[looked.kind] += 1
            with self._lock:
                self._read = max(self._read, self._bytes)
        if looked.problem:
            self._problems[looked.found.path, looked.found.version_id] = looked.problem
        if looked.traces:
            self._told.append(looked)

    def _is_young(self, looked: Looked) -> bool:
        found = looked.found
        if looked.is_live or found.is_earlier or f"/{OWN_FOLDER}/" in found.path or not found.bytes:
            return False
        return found.modified_at is not None and found.modified_at > self._before

    def _shown(self, path: str) -> str:
        """A path without what it tells, be it in a partition's folder or in a name that somebody gave."""
        return self._texts.veiled(self._veil.path(path))

    def _places(self, looked: Looked, left: set[Doubt]) -> Iterator[Place]:
        told = [trace for trace in looked.traces if trace.doubt is None or trace.doubt in left]
        wheres = Counter(trace.where for trace in told if not isinstance(trace.doubt, Around))
        wheres |= Counter({trace.where for trace in told})  # the same text may be met in several spellings: it is one
        path, version = self._shown(looked.found.path), looked.found.version_id
        for where, times in wheres.items():
            shown = self._texts.veiled(where) + ("" if times == 1 else f" ({times} times)")
            yield Place(path, version, shown, looked.kind, looked.is_live)


def _method(keys: Sequence[WantedKey], texts: Texts, there: Listed, explained: int) -> Iterator[str]:
    """How it was looked, in words."""
    columns = ", ".join(f"{key.path} ({key.kind})" for key in keys)
    yield f"every object where the table's files are was listed and opened: {there.objects} in all"
    yield f"{there.earlier} of them are earlier versions that the storage keeps"
    yield f"the column {columns} was decoded by type in every row of data and delete files, and in every dictionary"
    yield "statistics in data files, and in all manifests bounds, partition values and paths, also of removed entries"
    yield "metadata files with summaries and properties, statistics files, and names of files and folders"
    if texts.needles:
        yield f"texts and uuids of {texts.shortest} bytes and more also as bytes, as addresses and JSON spell them too"
    if texts.too_short:
        yield f"{texts.too_short} spellings are shorter than {texts.shortest} bytes, and were not looked for as bytes"
    if texts.ambiguous:
        yield f"{texts.ambiguous} values are words of the table's own schema or names, and were not looked for as bytes"
    yield f"what was cut short or transformed counts where no surviving row yields it; of {explained} one does"
