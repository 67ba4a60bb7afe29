"""The log files of this installation, and how erased values are overwritten in them.

A value is overwritten in place, byte by byte, so that processes that append to the same file are not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lakewarden.errors import TracesLeft

if TYPE_CHECKING:
    from lakewarden.erased_values import ErasedValues


class OwnLogs:
    """The `*.log` files in one folder, with rotated ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.log*") if path.is_file())

    def forget(self, values: ErasedValues) -> int:
        """Overwrite the values in all log files; returns how often they were found. Refused where one cannot be."""
        return sum(self._forget_in(path, values) for path in self.files())

    def _forget_in(self, path: Path, values: ErasedValues) -> int:
        try:
            found = list(_places(path, values))
            if found:
                with path.open("r+b", buffering=0) as file:
                    for start, length in found:
                        file.seek(start)
                        file.write(b"*" * length)
            return len(found)
        except OSError as error:
            raise TracesLeft(
                f"the log file {path} cannot be searched and redacted: {error.strerror}",
                "The request stays open. Change the file's permissions or delete it, then prove again.",
                places=[{"object": str(path), "where": "log file"}],
            ) from None


def _places(path: Path, values: ErasedValues) -> Iterator[tuple[int, int]]:
    """Where the values are in a file: the first byte, and how many."""
    start = 0
    with path.open("rb") as file:
        for line in file:
            text = line.decode(errors="surrogateescape")
            if values.words.may_be_in(text):
                for first, last in values.words.spans(text):
                    before, part = (_bytes(text[part]) for part in (slice(0, first), slice(first, last)))
                    yield start + len(before), len(part)
            start += len(line)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
