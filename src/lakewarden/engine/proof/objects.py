"""What a proof of erasure looks through: every object where a table's files are, and what its metadata leads to.

Objects are listed, not taken from metadata, so that orphans, quarantined files and whatever else lies there are among
them, and on buckets that keep versions the earlier ones too. What an object is, its content tells.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.locations import is_below
from lakewarden.engine.base.parallel import Branch, traverse
from lakewarden.engine.files.reachable import ReachableFile, ReachableSet, metadata_files, own_places
from lakewarden.engine.proof.avro import ListedFile, listed_files, listed_manifests, opened
from lakewarden.errors import LakewardenError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.proof.wanted import WantedKey
    from lakewarden.engine.storage.storage import StoredFiles, StoredVersion

_READERS = 8
_BUFFER = 1 << 20
_MOST_KEPT = 100_000  # objects of a listing
_BEGINNINGS = {b"PAR1": "parquet", b"PARE": "encrypted", b"Obj\x01": "avro", b"PFA1": "puffin", b"ORC": "orc"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object, or one version of it; a folder or a mark of a deletion has nothing but its name."""

    path: str
    bytes: int = 0
    modified_at: datetime | None = None
    version: StoredVersion | None = None

    @property
    def is_earlier(self) -> bool:
        return self.version is not None and not self.version.is_latest

    @property
    def version_id(self) -> str:
        return self.version.version if self.version else ""


@dataclass
class Reached:
    """What the table's metadata leads to."""

    files: ReachableSet
    manifests: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Files that were not listed at the table's places: they lie elsewhere, behind a link, or are new."""
    not_read: list[str] = field(default_factory=list)


def places(table: Table) -> list[str]:
    """Where to look: places that lie within one another are one."""
    every = own_places(table)
    return [place for place in every if not any(is_below(place, other) for other in every)]


def stored_objects(table: Table, storage: StoredFiles) -> Generator[StoredObject, None, None]:
    """Every object at the table's places, with its earlier versions where the storage keeps them."""
    for place in places(table):
        if storage.keeps_versions(place):
            for version in storage.versions(place):
                yield StoredObject(version.path, version.bytes, version.modified_at, version)
        else:
            for file in storage.walk(place):
                yield StoredObject(file.path, file.bytes, file.modified_at)


def folders(table: Table, storage: StoredFiles) -> Iterator[StoredObject]:
    """Folders, whose names may tell something even where nothing is in them."""
    for place in places(table):
        if not storage.keeps_versions(place):  # there they are among the versions
            yield from (StoredObject(folder) for folder in storage.folders(place))


@dataclass(frozen=True)
class Listed:
    """What there is at a table's places."""

    paths: ReachableSet
    objects: int
    bytes: int
    earlier: int
    kept: list[StoredObject] | None = None
    """All of them, where they are not too many to be kept."""

    def again(self, table: Table, storage: StoredFiles) -> Generator[StoredObject, None, None]:
        """The objects, one by one; listed once more where they were too many."""
        yield from stored_objects(table, storage) if self.kept is None else self.kept


def listed(table: Table, storage: StoredFiles) -> Listed:
    """List all there is at a table's places; of very many objects only a few bytes of each path are kept."""
    objects = total = earlier = 0
    kept: list[StoredObject] | None = []

    def counted() -> Iterator[ReachableFile]:
        nonlocal objects, total, earlier, kept
        for found in stored_objects(table, storage):
            objects, total, earlier = objects + 1, total + found.bytes, earlier + found.is_earlier
            kept = None if kept is None or objects > _MOST_KEPT else kept
            if kept is not None:
                kept.append(found)
            yield ReachableFile(found.path, "data")

    paths = ReachableSet(counted())
    return Listed(paths, objects, total, earlier, kept)


def size(table: Table, storage: StoredFiles) -> tuple[int, int]:
    """How many objects there are to look through, and how many bytes."""
    objects = total = 0
    for found in stored_objects(table, storage):
        objects, total = objects + 1, total + found.bytes
    return objects, total


def reach(table: Table, keys: Sequence[WantedKey], storage: StoredFiles, known: ReachableSet) -> Reached:
    """Follow the table's metadata through lists and manifests to every file that a version of it has."""
    following = _Following(table, keys, storage, known)
    files = ReachableSet(following.noted())
    return Reached(files, following.manifests, list(dict.fromkeys(following.elsewhere)), following.not_read)


class _Following:
    """One walk from a table's metadata to its files."""

    def __init__(self, table: Table, keys: Sequence[WantedKey], storage: StoredFiles, known: ReachableSet) -> None:
        self._table = table
        self._keys = keys
        self._storage = storage
        self._known = known
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self.manifests: list[str] = []
        self.elsewhere: list[str] = []
        self.not_read: list[str] = []

    def noted(self) -> Iterator[ReachableFile]:
        for file in self._followed():
            if file.path not in self._known:
                self.elsewhere.append(file.path)
            yield file

    def _followed(self) -> Iterator[ReachableFile]:
        metadata = self._table.metadata
        lists = dict.fromkeys((snapshot.manifest_list, True) for snapshot in metadata.snapshots)
        statistics = [*metadata.statistics, *metadata.partition_statistics]
        yield from metadata_files(self._table)
        yield from (ReachableFile(told.statistics_path, "statistics") for told in statistics)
        yield from traverse(lists, self._look, _READERS, "reach")

    def _look(self, task: tuple[str, bool]) -> Iterator[ReachableFile | Branch[tuple[str, bool]]]:
        path, is_list = task
        yield ReachableFile(path, "manifest-list" if is_list else "manifest")
        try:
            with open_buffered(self._storage, path) as source:
                yield from self._manifests(source) if is_list else self._files(source)
        except (LakewardenError, OSError, ValueError, KeyError, EOFError, TypeError):
            with self._lock:
                self.not_read.append(path)

    def _manifests(self, source: io.BufferedReader) -> Iterator[Branch[tuple[str, bool]]]:
        for manifest in listed_manifests(opened(source)):
            with self._lock:
                is_new = manifest not in self._seen
                self._seen.add(manifest)
                if is_new:
                    self.manifests.append(manifest)
            if is_new:
                yield Branch((manifest, False))

    def _files(self, source: io.BufferedReader) -> Iterator[ReachableFile]:
        for file in listed_files(opened(source), self._keys, self._table.metadata):
            if file.is_live:
                yield ReachableFile(file.path, "deletes" if file.content else "data")


def live_data(
    reached: Reached, table: Table, keys: Sequence[WantedKey], storage: StoredFiles
) -> Generator[ListedFile, None, None]:
    """Every data file that a version of the table has, once for each manifest that lists it."""
    for manifest in reached.manifests:
        with open_buffered(storage, manifest) as source:
            found = listed_files(opened(source), keys, table.metadata)
            yield from (file for file in found if file.is_live and not file.content)


def open_buffered(storage: StoredFiles, path: str, size: int = _BUFFER) -> io.BufferedReader:
    """A file, read in larger pieces than a decoder asks for; of a small one, no larger than it is."""
    return io.BufferedReader(_Raw(storage.open(path)), min(max(size, io.DEFAULT_BUFFER_SIZE), _BUFFER))


class _Raw(io.RawIOBase):
    """Arrow's file as Python's own readers expect one."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        return int(self._source.tell())

    def readinto(self, buffer: Any) -> int:
        content = self._source.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


def open_object(storage: StoredFiles, found: StoredObject) -> io.BufferedReader:
    """An object, or that version of it, to read from anywhere in it."""
    if found.version is not None:
        return storage.open_version(found.version)
    return open_buffered(storage, found.path, found.bytes)


def form_of(beginning: bytes) -> str:
    """What an object is by its first bytes."""
    for magic, form in _BEGINNINGS.items():
        if beginning.startswith(magic):
            return form
    if beginning.startswith(b"\x1f\x8b"):
        return "gzip"
    return "json" if beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "other"
