"""The log files of this installation, and how erased values are overwritten in them.

A value is overwritten in place, byte by byte, so that processes that append to the same file are not disturbed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lakewarden.errors import TracesLeft

if TYPE_CHECKING:
    from lakewarden.erased_values import ErasedValues

_COMPRESSED = frozenset((".gz", ".bz2", ".xz", ".zst", ".zip"))
_File = tuple[int, int]  # device and inode


class OwnLogs:
    """The `*.log` files in one folder, with rotated ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.log*") if path.is_file())

    def forget(self, values: ErasedValues) -> int:
        """Overwrite the values in all log files; returns how often they were found. Refused where one cannot be.

        Files are rotated meanwhile, so the folder is listed until it has no file that was not searched.
        """
        searched = set[_File]()
        count = 0
        while left := [path for path in self.files() if _identity(path) not in searched | {None}]:
            for path in left:
                if path.suffix in _COMPRESSED:
                    raise _refused(path, "it is compressed", "Decompress or delete it")
                try:
                    count += _forget_in(path, values, searched)
                except OSError as error:
                    raise _refused(path, f"{error.strerror}", "Change the file's permissions or delete it") from None
        return count


def _refused(path: Path, why: str, what_to_do: str) -> TracesLeft:
    return TracesLeft(
        f"the log file {path} cannot be searched and redacted: {why}",
        f"The request stays open. {what_to_do}, then prove again.",
        places=[{"object": str(path), "where": "log file"}],
    )


def _forget_in(path: Path, values: ErasedValues, searched: set[_File]) -> int:
    """Overwrite the values in one file, and note that it was searched, unless it was rotated meanwhile."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        found, identity = list(_places(file, values)), _of(os.fstat(file.fileno()))
        if not found:
            searched.add(identity)
            return 0
        with path.open("r+b", buffering=0) as writing:
            if _of(os.fstat(writing.fileno())) == identity:
                for start, length in found:
                    writing.seek(start)
                    writing.write(b"*" * length)
                searched.add(identity)
                return len(found)
    return 0


def _identity(path: Path) -> _File | None:
    """Which file a path is at the moment; None if it is gone."""
    try:
        return _of(path.stat())
    except FileNotFoundError:
        return None


def _of(stat: os.stat_result) -> _File:
    return stat.st_dev, stat.st_ino


def _places(file: BinaryIO, values: ErasedValues) -> Iterator[tuple[int, int]]:
    """Where the values are in a file: the first byte, and how many."""
    start = 0
    for line in file:
        text = line.decode(errors="surrogateescape")
        if values.words.may_be_in(text):
            for first, last in values.words.spans(text):
                before, part = (_bytes(text[part]) for part in (slice(0, first), slice(first, last)))
                yield start + len(before), len(part)
        start += len(line)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
