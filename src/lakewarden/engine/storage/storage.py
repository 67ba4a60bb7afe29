"""Files and objects of a lake, whatever they are stored on: a part to look at them, and one to change them.

Whoever only reads is given `StoredFiles`, which cannot change anything. `Storage` adds what an action may do. It
looks at its fence before each batch of deletions or moves, so that whoever lost a lease stops there. How files
are listed, deleted and moved on each kind of storage is in `arrow_store.py` and `s3_store.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

from lakewarden.config import LakeSettings
from lakewarden.engine.base.faults import told
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
_COMPARED = 1 << 20  # bytes of two files that are compared at a time


class Stores:
    """What one lake's files are stored on: opened when first used, and kept."""

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
    """One lake's files, to look at."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def renames(self, location: str) -> bool:
        """Whether moving a file within a place copies nothing."""
        return self._stores.of(location).renames

    def read(self, location: str, most: int | None = None) -> bytes:
        """A file's content, or only the beginning of it."""
        with told(location), self._opened(location) as stream:
            return bytes(stream.read(most))

    def open(self, location: str) -> NativeFile:
        """A file to read from anywhere in it."""
        with told(location):
            return self._stores.filesystem(location).open_input_file(arrow_path(location))

    def list(self, location: str) -> list[str]:
        """The names right below a place; none where it is not there."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(arrow_path(location), allow_not_found=True)
        with told(location):
            return [info.base_name for info in self._stores.filesystem(location).get_file_info(selector)]

    def walk(self, location: str, without: Collection[str] = ()) -> Generator[StoredFile, None, None]:
        """Every file at a place and below, in any order, spelled as the place is; none where it is not there.

        Folders right below it that have one of the names in `without` are left out. Streamed, and listed by several
        threads: however many files there are, some thousands are in memory at a time.
        """
        with told(location):
            yield from self._stores.of(location).walk(location, without)

    def folders(self, location: str) -> Generator[str, None, None]:
        """Every folder below a place, also an empty one: its name may tell something. Links are not followed."""
        with told(location):
            yield from self._stores.of(location).folders(location)

    def sees_versions(self, location: str) -> bool:
        """Whether it can be told here what a bucket keeps of objects that were overwritten or deleted."""
        store = self._stores.of(location)
        return not apart(location)[0].startswith("s3:") or not isinstance(store, ArrowStore)

    def unfinished_uploads(self, location: str) -> int:
        """How many writes below a place were begun and not ended, as far as the storage tells."""
        store = self._stores.of(location)
        return 0 if isinstance(store, LocalStore | ArrowStore) else cast("S3Store", store).unfinished_uploads(location)

    def keeps_versions(self, location: str) -> bool:
        """Whether what is overwritten or deleted there stays as an earlier version."""
        with told(location):
            return self._versioned(location) is not None

    def versions(self, location: str) -> Generator[StoredVersion, None, None]:
        """Every version of what is or was at a place and below; none where the storage keeps no versions."""
        with told(location):
            store = self._versioned(location)
            if store is not None:
                yield from store.versions(location)

    def open_version(self, version: StoredVersion) -> io.BufferedReader:
        """One version of an object, to read from anywhere in it."""
        with told(version.path):
            store = self._versioned(version.path)
            if store is None:
                raise FileNotFoundError(version.path)
            return store.open_version(version)

    def look(self, locations: Iterable[str]) -> dict[str, StoredFile | None]:
        """The files at these places, where there are any."""
        asked = iter(locations)
        found: dict[str, StoredFile | None] = {}
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as threads:
            while some := list(islice(asked, _BATCH)):
                found |= dict(zip(some, threads.map(self._look, some), strict=True))
        return found

    def sizes(self, locations: Iterable[str]) -> dict[str, int | None]:
        """How large the files at these places are; none where there is no file."""
        return {location: file.bytes if file else None for location, file in self.look(locations).items()}

    def same_content(self, one: str, other: str) -> bool:
        """Whether two files hold the same, byte by byte."""
        with told(one), self._opened(one) as a, self._opened(other) as b:
            while True:
                left, right = a.read(_COMPARED), b.read(_COMPARED)
                if left != right:
                    return False
                if not left:
                    return True

    def _opened(self, location: str) -> NativeFile:
        return self._stores.filesystem(location).open_input_stream(arrow_path(location))

    def _versioned(self, location: str) -> S3Store | None:
        """What a place is stored on, where that keeps versions."""
        store = self._stores.of(location)
        if isinstance(store, LocalStore | ArrowStore):
            return None
        objects = cast("S3Store", store)
        return objects if objects.keeps_versions(location) else None

    def _look(self, location: str) -> StoredFile | None:
        with told(location):
            return self._stores.of(location).look(location)


class Storage(StoredFiles):
    """One lake's files, to change."""

    def __init__(self, stores: Stores, fence: Fence = lambda: None) -> None:
        super().__init__(stores)
        self._fence = fence

    def write(self, location: str, content: bytes) -> None:
        """Write a file, whole or not at all; over one that is there."""
        self._fence()
        with told(location):
            if is_local(location):
                self._stores.local.write(location, content)
                return
            with self._stores.filesystem(location).open_output_stream(arrow_path(location)) as stream:
                stream.write(content)

    def delete(self, location: str) -> None:
        with told(location):
            self._stores.filesystem(location).delete_file(arrow_path(location))

    def delete_all(self, locations: Sequence[str], progress: Progress | None = None) -> Removed:
        """Delete files, as many as can be: one that cannot is told of, one that is not there is counted apart."""
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
        """Delete files as `delete_all` does, and leave nothing of them: no earlier version, and no mark of a deletion.

        On local disks folders that are empty then go too, as far as they lie below one of the places in `within`: the
        name of a partition's folder may hold what is to be erased. Bytes are those of all versions.
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
        """See to it that a file is at another place; false where it is at neither.

        A move that stopped halfway is brought to its end. Another file that is there is never overwritten.
        """
        with told(source):
            return self._put(source, target) is not None

    def move_all(self, moves: Sequence[tuple[str, str]], progress: Progress | None = None) -> Moved:
        """Move files, each from a place to another, as many as can be."""
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
        """Needed on local disks only; object stores have no folders."""
        if is_local(location):
            with told(location):
                self._stores.filesystem(location).create_dir(arrow_path(location), recursive=True)

    def remove_empty_folder(self, location: str) -> None:
        """Take a folder away that nothing is in; one that holds something stays.

        In object stores only those can be taken away that somebody made, as objects whose names end with a slash.
        """
        with told(location):
            self._stores.of(location).remove_empty_folder(location)

    def _batches(self, items: Sequence[Item], progress: Progress | None) -> Iterator[Sequence[Item]]:
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            self._fence()
            yield batch
            if progress:
                progress(start + len(batch), len(items))

    def _seen(self, locations: Sequence[str]) -> dict[str, StoredFile | str | None]:
        """The file at each place, or why it cannot be looked at."""

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
            with told(some[0]):
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
        """How large the moved file is; nothing where there is none, and in words why it could not be moved."""
        try:
            with told(move[0]):
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
                f"{source} and {target} are not on one storage", "Files are not moved between two."
            )
        if new is None:
            store.move(old, target)
        elif old.bytes != new.bytes or not self.same_content(source, target):
            raise AlreadyExists(
                f"{target} is there already, and is not the file that was to be put there",
                "Nothing was overwritten. Look at both, and put one away.",
            )
        elif problems := store.delete([source]):  # copied before, and stopped there
            raise OSError(problems[source])
        return old.bytes
