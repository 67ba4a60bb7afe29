"""The files of a lake, on any storage: one class to read them, one to change them.

Readers get `StoredFiles`, which cannot change anything. `Storage` adds what an action may do. It checks its fence
before each batch of deletions or moves, so that a process that lost its lease stops there. `arrow_store.py` and
`s3_store.py` implement listing, deleting and moving.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

from lakewarden.config import LakeSettings
from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import apart, is_local
from lakewarden.engine.catalog.catalogs import pyiceberg_properties
from lakewarden.engine.storage.arrow_store import ArrowStore, LocalStore, Store, StoredFile, StoredVersion, arrow_path
from lakewarden.engine.storage.bulk_result import Moved, Removed
from lakewarden.errors import AlreadyExists, LakewardenError, StorageUnavailable
from lakewarden.lifecycle.basics import Fence
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    import io

    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem
    from pyiceberg.io.pyarrow import PyArrowFileIO

    from lakewarden.engine.storage.s3_store import S3Store

__all__ = ["Moved", "Removed", "Storage", "StoredFile", "StoredFiles", "StoredVersion", "Stores"]

Item = TypeVar("Item")
Progress = Callable[[int, int], None]
_THREADS = 16
_BATCH = 1000
_COMPARED = 1 << 20  # bytes compared at a time


class Stores:
    """The storage backends of one lake, opened on first use."""

    def __init__(self, settings: LakeSettings) -> None:
        self.settings = settings
        self._open: dict[str, Store] = {}
        self._lock = threading.Lock()

    @cached_property
    def local(self) -> LocalStore:
        return LocalStore()

    def of(self, location: str) -> Store:
        if is_local(location):
            return self.local
        authority = apart(location)[0]
        with self._lock:
            if authority not in self._open:
                self._open[authority] = self._opened(authority)
            return self._open[authority]

    def filesystem(self, location: str) -> FileSystem:
        scheme, _, host = apart(location)[0].partition("://")
        return self._arrow.fs_by_scheme(scheme.rstrip(":"), host)

    @cached_property
    def _arrow(self) -> PyArrowFileIO:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        return PyArrowFileIO(pyiceberg_properties(self.settings))

    def _opened(self, authority: str) -> Store:
        if authority.startswith("s3:"):
            from lakewarden.engine.storage import s3_store

            properties = pyiceberg_properties(self.settings)
            if s3_store.can_serve(properties):
                return s3_store.S3Store(properties)
        return ArrowStore(self.filesystem(authority))


class StoredFiles:
    """Read access to a lake's files."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def renames(self, location: str) -> bool:
        """Whether moving a file within a location copies nothing."""
        return self._stores.of(location).renames

    def read(self, location: str, most: int | None = None) -> bytes:
        """A file's content, or the beginning of it."""
        with translating(location), self._opened(location) as stream:
            return bytes(stream.read(most))

    def open(self, location: str) -> NativeFile:
        """A file, seekable."""
        with translating(location):
            return self._stores.filesystem(location).open_input_file(arrow_path(location))

    def list(self, location: str) -> list[str]:
        """The names directly below a location; none if it does not exist."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(arrow_path(location), allow_not_found=True)
        with translating(location):
            return [info.base_name for info in self._stores.filesystem(location).get_file_info(selector)]

    def walk(self, location: str, without: Collection[str] = ()) -> Generator[StoredFile, None, None]:
        """All files below a location, in any order; none if it does not exist.

        Direct subfolders with names in `without` are skipped. Streamed and listed by several threads: only some
        thousands of files are in memory at a time.
        """
        with translating(location):
            yield from self._stores.of(location).walk(location, without)

    def folders(self, location: str) -> Generator[str, None, None]:
        """All folders below a location, including empty ones: a name may contain a value. Links are not followed."""
        with translating(location):
            yield from self._stores.of(location).folders(location)

    def sees_versions(self, location: str) -> bool:
        """Whether old versions of overwritten or deleted objects can be listed here."""
        store = self._stores.of(location)
        return not apart(location)[0].startswith("s3:") or not isinstance(store, ArrowStore)

    def unfinished_uploads(self, location: str) -> int:
        """The number of incomplete uploads below a location, if the storage can tell."""
        store = self._stores.of(location)
        return 0 if isinstance(store, LocalStore | ArrowStore) else cast("S3Store", store).unfinished_uploads(location)

    def keeps_versions(self, location: str) -> bool:
        """Whether overwritten and deleted files are kept as old versions."""
        with translating(location):
            return self._versioned(location) is not None

    def versions(self, location: str) -> Generator[StoredVersion, None, None]:
        """All versions of current and deleted objects below a location; none if the storage keeps no versions."""
        with translating(location):
            store = self._versioned(location)
            if store is not None:
                yield from store.versions(location)

    def open_version(self, version: StoredVersion) -> io.BufferedReader:
        """One version of an object, seekable."""
        with translating(version.path):
            store = self._versioned(version.path)
            if store is None:
                raise FileNotFoundError(version.path)
            return store.open_version(version)

    def look(self, locations: Iterable[str]) -> dict[str, StoredFile | None]:
        """The files at these locations, None where there is none."""
        asked = iter(locations)
        found: dict[str, StoredFile | None] = {}
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as threads:
            while some := list(islice(asked, _BATCH)):
                found |= dict(zip(some, threads.map(self._look, some), strict=True))
        return found

    def sizes(self, locations: Iterable[str]) -> dict[str, int | None]:
        """The sizes of the files at these locations, None where there is none."""
        return {location: file.bytes if file else None for location, file in self.look(locations).items()}

    def same_content(self, one: str, other: str) -> bool:
        """Whether two files are equal byte by byte."""
        with translating(one), self._opened(one) as a, self._opened(other) as b:
            while True:
                left, right = a.read(_COMPARED), b.read(_COMPARED)
                if left != right:
                    return False
                if not left:
                    return True

    def _opened(self, location: str) -> NativeFile:
        return self._stores.filesystem(location).open_input_stream(arrow_path(location))

    def _versioned(self, location: str) -> S3Store | None:
        """The storage of a location, if it keeps versions."""
        store = self._stores.of(location)
        if isinstance(store, LocalStore | ArrowStore):
            return None
        objects = cast("S3Store", store)
        return objects if objects.keeps_versions(location) else None

    def _look(self, location: str) -> StoredFile | None:
        with translating(location):
            return self._stores.of(location).look(location)


class Storage(StoredFiles):
    """Write access to a lake's files."""

    def __init__(self, stores: Stores, fence: Fence = lambda: None) -> None:
        super().__init__(stores)
        self._fence = fence

    def write(self, location: str, content: bytes) -> None:
        """Write a file completely or not at all, replacing an existing one."""
        self._fence()
        with translating(location):
            if is_local(location):
                self._stores.local.write(location, content)
                return
            with self._stores.filesystem(location).open_output_stream(arrow_path(location)) as stream:
                stream.write(content)

    def delete(self, location: str) -> None:
        with translating(location):
            self._stores.filesystem(location).delete_file(arrow_path(location))

    def delete_all(self, locations: Sequence[str], progress: Progress | None = None) -> Removed:
        """Delete as many files as possible; failures are reported, missing files are counted separately."""
        files = freed = missing = 0
        failed: list[tuple[str, str]] = []
        for batch in self._batches(locations, progress):
            seen = self._seen(batch)
            there = {place: file.bytes for place, file in seen.items() if isinstance(file, StoredFile)}
            unseen = {place: why for place, why in seen.items() if isinstance(why, str)}
            reach("storage.deleting")
            problems = self._delete(list(there))
            reach("storage.deleted")
            gone = [size for place, size in there.items() if place not in problems]
            files, freed = files + len(gone), freed + sum(gone)
            missing += len(seen) - len(there) - len(unseen)
            failed += [*problems.items(), *unseen.items()]
        return Removed(files, freed, missing, tuple(failed))

    def erase_all(
        self, locations: Sequence[str], within: Sequence[str] = (), progress: Progress | None = None
    ) -> Removed:
        """Delete files as `delete_all` does, with all old versions and delete markers.

        On local disks, folders below `within` that are empty afterwards are removed too: the name of a partition's
        folder may contain an erased value. Bytes include all versions.
        """
        asked = list(dict.fromkeys(locations))
        removed, done = Removed(), 0
        for store, some in self._by_store(asked).items():

            def tell(now: int, _: int, before: int = done) -> None:
                if progress:
                    progress(before + now, len(asked))

            objects = self._versioned_among(store, some)
            removed += self.delete_all([place for place in some if place not in objects], tell)
            removed += self._erase_versions(cast("S3Store", store), list(objects), tell)
            done += len(some)
        self._stores.local.clear_away([place for place in asked if is_local(place)], within)
        return removed

    def move(self, source: str, target: str) -> bool:
        """Ensure that a file is at another location, without overwriting another; False if it is at neither."""
        with translating(source):
            return self._put(source, target) is not None

    def move_all(self, moves: Sequence[tuple[str, str]], progress: Progress | None = None) -> Moved:
        """Move as many files as possible."""
        files = size = 0
        missing: list[str] = []
        failed: list[tuple[str, str]] = []
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="move") as threads:
            for batch in self._batches(moves, progress):
                for (source, _), outcome in zip(batch, threads.map(self._moved, batch), strict=True):
                    if isinstance(outcome, str):
                        failed.append((source, outcome))
                    elif outcome is None:
                        missing.append(source)
                    else:
                        files, size = files + 1, size + outcome
                    reach("storage.moved")
        return Moved(files, size, tuple(missing), tuple(failed))

    def make_folder(self, location: str) -> None:
        """Create a folder on local disks; object stores have none."""
        if is_local(location):
            with translating(location):
                self._stores.filesystem(location).create_dir(arrow_path(location), recursive=True)

    def remove_empty_folder(self, location: str) -> None:
        """Remove a folder if it is empty; in object stores, only one that was created as an object."""
        with translating(location):
            self._stores.of(location).remove_empty_folder(location)

    def _batches(self, items: Sequence[Item], progress: Progress | None) -> Iterator[Sequence[Item]]:
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            self._fence()
            yield batch
            if progress:
                progress(start + len(batch), len(items))

    def _seen(self, locations: Sequence[str]) -> dict[str, StoredFile | str | None]:
        """The file at each location, or why it cannot be checked."""

        def see(location: str) -> StoredFile | str | None:
            try:
                return self._look(location)
            except LakewardenError as error:
                return error.message

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as threads:
            return dict(zip(locations, threads.map(see, locations), strict=True))

    def _delete(self, locations: Sequence[str]) -> dict[str, str]:
        problems: dict[str, str] = {}
        for store, some in self._by_store(locations).items():
            with translating(some[0]):
                problems |= store.delete(some)
        return problems

    def _by_store(self, locations: Sequence[str]) -> dict[Store, list[str]]:
        stores: dict[Store, list[str]] = {}
        for location in locations:
            stores.setdefault(self._stores.of(location), []).append(location)
        return stores

    def _versioned_among(self, store: Store, locations: Sequence[str]) -> dict[str, None]:
        if isinstance(store, LocalStore | ArrowStore):
            return {}
        return {place: None for place in locations if self._versioned(place) is not None}

    def _erase_versions(self, store: S3Store, locations: Sequence[str], progress: Progress) -> Removed:
        removed = Removed()
        for batch in self._batches(locations, progress):
            reach("storage.deleting")
            there, problems = store.erase(batch)
            reach("storage.deleted")
            gone = {place: versions for place, versions in there.items() if place not in problems}
            files = [versions for versions in gone.values() if versions]
            freed = sum(version.bytes for versions in files for version in versions)
            removed += Removed(len(files), freed, len(gone) - len(files), tuple(problems.items()))
        return removed

    def _moved(self, move: tuple[str, str]) -> int | str | None:
        """The size of the moved file; None if there is none; text if it could not be moved."""
        try:
            with translating(move[0]):
                return self._put(*move)
        except LakewardenError as error:
            return error.message

    def _put(self, source: str, target: str) -> int | None:
        old, new = self._look(source), self._look(target)
        if old is None:
            return new.bytes if new else None
        store, other = self._stores.of(source), self._stores.of(target)
        if type(store) is not type(other) or (isinstance(store, ArrowStore) and store is not other):
            raise StorageUnavailable(
                f"{source} and {target} are not on the same storage",
                "Files can only be moved within one storage system.",
            )
        if new is None:
            store.move(old, target)
        elif old.bytes != new.bytes or not self.same_content(source, target):
            raise AlreadyExists(
                f"{target} exists already and differs from the file to be moved there",
                "Nothing was overwritten. Compare both, and move one away.",
            )
        elif problems := store.delete([source]):  # an interrupted move had copied it
            raise OSError(problems[source])
        return old.bytes
