"""What a proof of erasure searches: every object in a table's folders, and what its metadata references.

Objects come from listing storage, not from metadata, so that orphans, quarantined files and anything else are included,
and old versions in versioned buckets. An object's format is determined by its content.
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
    """An object, or one version of it; folders and delete markers have only a name."""

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
    """What the table's metadata references."""

    files: ReachableSet
    manifests: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Referenced files that were not listed: they are outside the table's folders, behind a link, or new."""
    not_read: list[str] = field(default_factory=list)


def places(table: Table) -> list[str]:
    """The folders to search, without those inside another."""
    every = own_places(table)
    return [place for place in every if not any(is_below(place, other) for other in every)]


def stored_objects(table: Table, storage: StoredFiles) -> Generator[StoredObject, None, None]:
    """Every object in the table's folders, with old versions if the storage keeps them."""
    for place in places(table):
        if storage.keeps_versions(place):
            for version in storage.versions(place):
                yield StoredObject(version.path, version.bytes, version.modified_at, version)
        else:
            for file in storage.walk(place):
                yield StoredObject(file.path, file.bytes, file.modified_at)


def folders(table: Table, storage: StoredFiles) -> Iterator[StoredObject]:
    """Folders, whose names may contain a value even if they are empty."""
    for place in places(table):
        if not storage.keeps_versions(place):  # there they are listed as versions
            yield from (StoredObject(folder) for folder in storage.folders(place))


@dataclass(frozen=True)
class Listed:
    """The contents of a table's folders."""

    paths: ReachableSet
    objects: int
    bytes: int
    earlier: int
    kept: list[StoredObject] | None = None
    """All objects, unless there are too many to keep."""

    def again(self, table: Table, storage: StoredFiles) -> Generator[StoredObject, None, None]:
        """The objects one by one; listed again if there were too many to keep."""
        yield from stored_objects(table, storage) if self.kept is None else self.kept


def listed(table: Table, storage: StoredFiles) -> Listed:
    """List everything in a table's folders; of very many objects only a digest of each path is kept."""
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
    """The number of objects to search, and their total size."""
    objects = total = 0
    for found in stored_objects(table, storage):
        objects, total = objects + 1, total + found.bytes
    return objects, total


def reach(table: Table, keys: Sequence[WantedKey], storage: StoredFiles, known: ReachableSet) -> Reached:
    """Follow the table's metadata through manifest lists and manifests to the files of all versions."""
    following = _Following(table, keys, storage, known)
    files = ReachableSet(following.noted())
    return Reached(files, following.manifests, list(dict.fromkeys(following.elsewhere)), following.not_read)


class _Following:
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
        yield from (ReachableFile(file.statistics_path, "statistics") for file in statistics)
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
    """Every data file of every version, once for each manifest that lists it."""
    for manifest in reached.manifests:
        with open_buffered(storage, manifest) as source:
            found = listed_files(opened(source), keys, table.metadata)
            yield from (file for file in found if file.is_live and not file.content)


def open_buffered(storage: StoredFiles, path: str, size: int = _BUFFER) -> io.BufferedReader:
    """A file with a read buffer larger than decoders use, but no larger than the file."""
    return io.BufferedReader(_Raw(storage.open(path)), min(max(size, io.DEFAULT_BUFFER_SIZE), _BUFFER))


class _Raw(io.RawIOBase):
    """An Arrow file as a Python raw stream."""

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
    """An object, or a version of it, seekable."""
    if found.version is not None:
        return storage.open_version(found.version)
    return open_buffered(storage, found.path, found.bytes)


def form_of(beginning: bytes) -> str:
    """The format of an object, by its first bytes."""
    for magic, form in _BEGINNINGS.items():
        if beginning.startswith(magic):
            return form
    if beginning.startswith(b"\x1f\x8b"):
        return "gzip"
    return "json" if beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "other"
