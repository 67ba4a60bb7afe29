"""Storage backends: local disks, and everything else that Arrow has a filesystem for. S3 has a separate module.

A store carries out single steps and decides nothing: `storage.py` decides what is deleted or moved, in which order, and
what is reported.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Protocol

from lakewarden.engine.base.faults import first_line
from lakewarden.engine.base.locations import apart, is_below, same_place
from lakewarden.engine.base.parallel import Branch, traverse

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_LOCAL_THREADS = min(os.cpu_count() or 1, 8)  # more would only contend
_REMOTE_THREADS = 16


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file; not every storage knows when it was written."""

    path: str
    bytes: int
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version of an object in storage that keeps old versions; a delete marker is a version too."""

    path: str
    version: str
    is_latest: bool
    is_delete_marker: bool
    bytes: int
    modified_at: datetime | None


class Store(Protocol):
    """One kind of storage."""

    renames: bool
    """Whether a move is a rename, without copying."""

    def walk(self, folder: str, without: Collection[str]) -> Iterator[StoredFile]:
        """All files below a folder, streamed; direct subfolders with these names are skipped."""
        ...

    def folders(self, folder: str) -> Iterator[str]:
        """All folders below a folder, including empty ones; in object stores, those created as objects."""
        ...

    def look(self, location: str) -> StoredFile | None:
        """The file at a location, if there is one."""
        ...

    def delete(self, locations: Sequence[str]) -> dict[str, str]:
        """Delete files; returns those that could not be deleted, and why. A missing file is not an error."""
        ...

    def move(self, file: StoredFile, target: str) -> None:
        """Move a file to a location where no file exists."""
        ...

    def remove_empty_folder(self, location: str) -> bool:
        """Remove a folder if it is empty; returns whether it is gone."""
        ...


class LocalStore:
    """Files on local or mounted disks. Links are neither followed nor listed."""

    renames = True

    def walk(self, folder: str, without: Collection[str]) -> Iterator[StoredFile]:
        top = folder.rstrip("/")

        def look(below: str) -> Iterator[StoredFile | Branch[str]]:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(local_path(top + below)) as entries:
                for entry in entries:
                    if not _is_text(entry.name) or (not below and entry.name in without):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        yield Branch(f"{below}/{entry.name}")
                    elif (found := _regular(f"{top}{below}/{entry.name}", entry)) is not None:
                        yield found

        return traverse([""], look, _LOCAL_THREADS, "walk")

    def folders(self, folder: str) -> Iterator[str]:
        top = str(local_path(folder.rstrip("/")))
        for place, names, _ in os.walk(top):
            yield from (f"{folder.rstrip('/')}{place[len(top) :]}/{name}" for name in names if _is_text(name))

    def look(self, location: str) -> StoredFile | None:
        try:
            found = local_path(location).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return StoredFile(location, found.st_size, _moment(found.st_mtime)) if S_ISREG(found.st_mode) else None

    def delete(self, locations: Sequence[str]) -> dict[str, str]:
        return one_by_one(locations, lambda location: local_path(location).unlink(), _LOCAL_THREADS)

    def move(self, file: StoredFile, target: str) -> None:
        old, new = local_path(file.path), local_path(target)
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.hardlink_to(old)  # unlike a rename, this never overwrites a file
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError as error:
            if error.errno == errno.EXDEV:
                _copy_whole(old, new)
                old.unlink()
            else:  # a file system without hard links
                old.rename(new)
        else:
            old.unlink()

    def write(self, location: str, content: bytes) -> None:
        """Write a file that appears under its name only when complete, and survives a power failure."""
        path = local_path(location)
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)

    def clear_away(self, gone: Sequence[str], within: Sequence[str]) -> None:
        """Remove what remains beside deleted files: Hadoop's checksum files, and folders that are empty now.

        Only folders below one of the locations in `within` are removed. Direct children of one, such as `data`, stay: a
        writer may be about to use them.
        """
        tops = {same_place(place).rstrip("/") for place in within}
        for place in gone:
            path = local_path(place)
            if not path.exists():
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        folders = {same_place(place).rpartition("/")[0] for place in gone}
        for folder in sorted(folders, key=len, reverse=True):
            at = folder
            while at not in tops and any(is_below(at, top) for top in tops):
                above, _, name = at.rpartition("/")
                if (above in tops and "=" not in name) or not self.remove_empty_folder(at):
                    break
                at = above

    def remove_empty_folder(self, location: str) -> bool:
        try:
            local_path(location).rmdir()
        except FileNotFoundError:
            return True
        except OSError:  # not empty
            return False
        return True


class ArrowStore:
    """Any storage with an Arrow filesystem, listed folder by folder."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self.renames = filesystem.type_name == "hdfs"

    def walk(self, folder: str, without: Collection[str]) -> Iterator[StoredFile]:
        from pyarrow.fs import FileSelector, FileType

        top = folder.rstrip("/")

        def look(below: str) -> Iterator[StoredFile | Branch[str]]:
            selector = FileSelector(arrow_path(top + below), allow_not_found=True)
            for info in self._filesystem.get_file_info(selector):
                if not below and info.base_name in without:
                    continue
                if info.type == FileType.Directory:
                    yield Branch(f"{below}/{info.base_name}")
                elif info.type == FileType.File:
                    yield _stored(f"{top}{below}/{info.base_name}", info)

        return traverse([""], look, _REMOTE_THREADS, "walk")

    def folders(self, folder: str) -> Iterator[str]:
        from pyarrow.fs import FileSelector, FileType

        top = arrow_path(folder.rstrip("/"))
        for info in self._filesystem.get_file_info(FileSelector(top, recursive=True, allow_not_found=True)):
            if info.type == FileType.Directory:
                yield f"{folder.rstrip('/')}{info.path[len(top) :]}"

    def look(self, location: str) -> StoredFile | None:
        info = self._filesystem.get_file_info(arrow_path(location))
        return _stored(location, info) if info.is_file else None

    def delete(self, locations: Sequence[str]) -> dict[str, str]:
        return one_by_one(
            locations, lambda location: self._filesystem.delete_file(arrow_path(location)), _REMOTE_THREADS
        )

    def move(self, file: StoredFile, target: str) -> None:
        old, new = arrow_path(file.path), arrow_path(target)
        if self.renames:
            self._filesystem.create_dir(new.rpartition("/")[0], recursive=True)
            self._filesystem.move(old, new)
        else:
            self._filesystem.copy_file(old, new)
            self._filesystem.delete_file(old)

    def remove_empty_folder(self, location: str) -> bool:
        from pyarrow.fs import FileSelector

        path = arrow_path(location.rstrip("/"))
        if self._filesystem.get_file_info(FileSelector(path, allow_not_found=True)):
            return False
        if self._filesystem.get_file_info(path).type.name == "Directory":
            self._filesystem.delete_dir(path)
        return True


def one_by_one(locations: Sequence[str], delete: Callable[[str], None], threads: int) -> dict[str, str]:
    """Delete files with one call each; returns those that could not be deleted, and why."""

    def problem(location: str) -> str:
        try:
            delete(location)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or first_line(error)
        return ""

    with ThreadPoolExecutor(threads, thread_name_prefix="delete") as pool:
        return {location: why for location, why in zip(locations, pool.map(problem, locations), strict=True) if why}


def local_path(location: str) -> Path:
    return Path(apart(location)[1])


def arrow_path(location: str) -> str:
    """A location as Arrow's filesystems take it: buckets are part of the path, name nodes are not."""
    authority, path = apart(location)
    scheme, _, host = authority.partition("://")
    return path if scheme in ("file:", "hdfs", "viewfs") else f"{host}{path}"


def _is_text(name: str) -> bool:
    """Whether a file name is valid text; no Iceberg client writes other names."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _regular(path: str, entry: os.DirEntry[str]) -> StoredFile | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # gone since it was listed
        return None
    return StoredFile(path, found.st_size, _moment(found.st_mtime)) if S_ISREG(found.st_mode) else None


def _copy_whole(old: Path, new: Path) -> None:
    """Copy a file to another disk, where it appears under its name only when complete."""
    part = new.with_name(f"{new.name}.part")
    shutil.copy2(old, part)
    part.rename(new)


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _stored(path: str, info: FileInfo) -> StoredFile:
    return StoredFile(path, info.size or 0, info.mtime)
