"""Searches everything stored of a table for erased values, and reports what remains.

It trusts nothing that erases: objects come from listing storage, manifests are read by another library, and each object
is judged by its own content. Several threads search objects, with a bounded number in memory. The other modules of this
package search each format. No value, and no path that contains one, leaves this module.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from lakewarden.engine.proof.object_reader import Looked, ObjectReader, stop
from lakewarden.engine.proof.objects import (
    Listed,
    StoredObject,
    folders,
    listed,
    live_data,
    places,
    reach,
    size,
)
from lakewarden.engine.proof.result import NotRead, Place, Proof
from lakewarden.engine.proof.survivors import unexplained
from lakewarden.engine.proof.texts import Texts
from lakewarden.engine.proof.wanted import Around, Doubt, WantedKey, wanted_keys
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.engine.storage.quarantine import OWN_FOLDER

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey

__all__ = ["NotRead", "Place", "Proof", "prove", "size"]

Progress = Callable[[int, int], None]
_THREADS = 8
_AHEAD = 16  # parts that are submitted ahead
_MOST_TOGETHER = 32
_BYTES_TOGETHER = 1 << 20
_MORE_ROUNDS = 3
_SECONDS_BETWEEN_WORDS = 0.5


def prove(
    table: Table,
    keys: Sequence[HiddenKey],
    storage: StoredFiles,
    *,
    before: datetime,
    reload: Callable[[], Table] | None = None,
    progress: Progress | None = None,
) -> Proof:
    """Search every object of a table for key values.

    Matches in unreferenced objects written after `before` are reported separately. If the table changed meanwhile,
    according to `reload`, the new objects are searched too.
    """
    looking = _Looking(table, keys, storage, before, progress)
    looking.round(table)
    for _ in range(_MORE_ROUNDS):
        latest = table if reload is None else reload()
        if latest.metadata_location == table.metadata_location:
            break
        table = latest
        looking.round(table)
    return looking.proof(table)


class _Looking:
    """One proof in progress."""

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
        self._redaction = Redaction.of(table.metadata, [key.field_id for key in self._keys])
        self._texts: Texts | None = None
        self._table = table
        self._seen: set[int] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._read = self._total = 0
        self._next_word = 0.0
        self._with_traces: list[Looked] = []
        self._unread: list[StoredObject] = []
        self._problems: dict[tuple[str, str], str] = {}
        self._kinds: Counter[str] = Counter()
        self._objects = self._bytes = 0

    def round(self, table: Table) -> None:
        """Search everything that was not searched before, and retry what could not be read."""
        self._listed = listed(table, self._storage)
        self._total = max(self._listed.bytes, self._read)
        if self._texts is None or not _is_built_alike(table, self._table):
            self._texts = Texts(table, self._keys, self._listed.bytes)
        self._table = table
        self._reached = reach(table, self._keys, self._storage, self._listed.paths)
        self._reader = ObjectReader(table.metadata, self._keys, self._texts, self._storage, self._count_read)
        self._look_at(self._objects_of(table))

    def proof(self, table: Table) -> Proof:
        """The result, once it is known which doubtful traces remaining rows explain."""
        self._look_at(self._still_unread())
        doubts = {trace.doubt for looked in self._with_traces for trace in looked.traces if trace.doubt is not None}
        left: set[Doubt] = set()
        if doubts:
            with closing(live_data(self._reached, table, self._keys, self._storage)) as files:
                left = unexplained(doubts, self._keys, files, self._storage)
        proof = Proof(self._redaction.path(table.metadata_location), len(table.metadata.snapshots))
        for looked in self._with_traces:
            found = list(self._places(looked, left))
            if not self._is_young(looked.found):
                proof.places += found
            elif found:
                proof.young += found
                proof.youngest = max(at for at in (proof.youngest, looked.found.modified_at) if at)
        proof.places, proof.young = list(dict.fromkeys(proof.places)), list(dict.fromkeys(proof.young))
        proof.places.sort(key=lambda place: (not place.live, place.object, place.version, place.where))
        proof.not_read = [NotRead(self._shown(path), version, why) for path, version, why in self._all_unread(table)]
        proof.objects, proof.bytes, proof.by_kind = self._objects, self._bytes, dict(sorted(self._kinds.items()))
        proof.method = list(_method(self._keys, self._known, self._listed, len(doubts) - len(left)))
        if uploads := sum(map(self._storage.unfinished_uploads, places(table))):
            proof.method.append(f"{uploads} incomplete uploads cannot be read")
        return proof

    @property
    def _known(self) -> Texts:
        assert self._texts is not None  # set by the first round
        return self._texts

    def _look_at(self, objects: Iterator[StoredObject]) -> None:
        with closing(self._looked(objects)) as results:
            for looked in results:
                self._take(looked)
        if self._progress:
            self._progress(min(self._read, self._total), self._total)

    def _still_unread(self) -> Iterator[StoredObject]:
        """Retry what could not be read: it may have been in the middle of being written."""
        unread, self._unread, self._problems = self._unread, [], {}
        current = self._storage.look([found.path for found in unread if found.version is None])
        for found in unread:
            if found.version is not None:
                yield found
            elif (file := current[found.path]) is not None:
                yield StoredObject(found.path, file.bytes, file.modified_at)

    def _all_unread(self, table: Table) -> Iterator[tuple[str, str, str]]:
        yield from ((path, version, why) for (path, version), why in self._problems.items())
        for path in self._reached.not_read:
            if (path, "") not in self._problems:
                yield path, "", "the table's metadata references it, but it cannot be read"
        for place in places(table):
            if not self._storage.sees_versions(place):
                yield place, "", "old versions of its objects cannot be listed: install lakewarden[s3]"

    def _objects_of(self, table: Table) -> Iterator[StoredObject]:
        with closing(self._listed.again(table, self._storage)) as found:
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

    def _looked(self, objects: Iterator[StoredObject]) -> Generator[Looked, None, None]:
        """Search objects in several threads, a limited number ahead, and report progress."""
        parts = _together(objects)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="prove") as threads:
            waiting: set[Future[list[Looked]]] = set()
            try:
                while True:
                    for part in islice(parts, _AHEAD - len(waiting)):
                        waiting.add(threads.submit(self._look_at_each, part))
                    if not waiting:
                        return
                    done, waiting = wait(waiting, _SECONDS_BETWEEN_WORDS, FIRST_COMPLETED)
                    for future in done:
                        yield from future.result()
                    if self._progress and time.monotonic() >= self._next_word:
                        self._next_word = time.monotonic() + _SECONDS_BETWEEN_WORDS
                        self._progress(min(self._read, self._total), self._total)
            finally:
                self._stopped = True
                threads.shutdown(cancel_futures=True)
                self._stopped = False

    def _look_at_each(self, objects: Sequence[StoredObject]) -> list[Looked]:
        return [self._reader.look(found, self._reached) for found in objects]

    def _count_read(self, read: int) -> None:
        if self._stopped:
            stop()
        with self._lock:
            self._read += read

    def _take(self, looked: Looked) -> None:
        if looked.kind == "gone":
            return
        if looked.problem:
            self._unread.append(looked.found)
            self._problems[looked.found.path, looked.found.version_id] = looked.problem
        elif looked.found.bytes:
            self._objects, self._bytes = self._objects + 1, self._bytes + looked.found.bytes
            self._kinds[looked.kind] += 1
            with self._lock:
                self._read = max(self._read, self._bytes)
        if looked.traces:
            self._with_traces.append(looked)

    def _is_live(self, found: StoredObject) -> bool:
        """By the newest metadata: an unreferenced object may have been committed since."""
        return not found.is_earlier and found.path in self._reached.files

    def _is_young(self, found: StoredObject) -> bool:
        if self._is_live(found) or found.is_earlier or f"/{OWN_FOLDER}/" in found.path or not found.bytes:
            return False
        return found.modified_at is not None and found.modified_at > self._before

    def _shown(self, path: str) -> str:
        """A redacted path: without values in partition folders or other names."""
        return self._known.redacted(self._redaction.path(path))

    def _places(self, looked: Looked, left: set[Doubt]) -> Iterator[Place]:
        traces = [trace for trace in looked.traces if trace.doubt is None or trace.doubt in left]
        wheres = Counter(trace.where for trace in traces if not isinstance(trace.doubt, Around))
        wheres |= Counter({trace.where for trace in traces})  # several spellings of one text count once
        path, version = self._shown(looked.found.path), looked.found.version_id
        for where, times in wheres.items():
            shown = self._known.redacted(where) + ("" if times == 1 else f" ({times} times)")
            yield Place(path, version, shown, looked.kind, self._is_live(looked.found))


def _together(objects: Iterator[StoredObject]) -> Iterator[list[StoredObject]]:
    """Objects for one thread: scheduling small ones one by one costs as much as searching them."""
    part: list[StoredObject] = []
    size = 0
    for found in objects:
        part.append(found)
        size += found.bytes
        if len(part) >= _MOST_TOGETHER or size >= _BYTES_TOGETHER:
            yield part
            part, size = [], 0
    if part:
        yield part


def _is_built_alike(table: Table, other: Table) -> bool:
    """Whether two states of a table have the same columns, partitions, location and properties."""
    one, another = table.metadata, other.metadata
    return (one.schemas, one.partition_specs, one.location, one.properties) == (
        another.schemas,
        another.partition_specs,
        another.location,
        another.properties,
    )


def _method(keys: Sequence[WantedKey], texts: Texts, there: Listed, explained: int) -> Iterator[str]:
    """How the search was done, as sentences."""
    columns = ", ".join(f"{key.path} ({key.kind})" for key in keys)
    yield f"every object in the table's folders was listed and opened: {there.objects} in all"
    yield f"{there.earlier} of them are old versions that the storage keeps"
    yield f"the column {columns} was decoded by type in every row of data and delete files, and in every dictionary"
    yield "statistics in data files; bounds, partition values and paths in all manifests, including removed entries"
    yield "metadata files with summaries and properties, statistics files with sketches, names of files and folders"
    yield "links between folders are followed only if the table's metadata references files behind them"
    if texts.needles:
        yield f"texts and UUIDs of {texts.shortest} bytes or more also as bytes, URL-encoded and as in JSON"
    if texts.too_short:
        yield f"{texts.too_short} spellings are shorter than {texts.shortest} bytes, and were not searched as bytes"
    if texts.like_numbers:
        yield (
            f"{texts.like_numbers} values look like numbers of fewer than ten digits: outside columns they were "
            "searched only as whole texts of documents and whole components of paths"
        )
    if texts.ambiguous:
        yield f"{texts.ambiguous} values are words of the table's own schema or names, and were not searched as bytes"
    yield f"truncated or transformed values count unless a remaining row explains them; {explained} are explained"
