"""A cache of metadata files, parsed or just written: they never change, and parsing one with many snapshots is slow.

The catalog is still asked for the current file each time, and the file must still exist with the same length: a deleted
or truncated file is not served from the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.base import collector
from lakewarden.engine.base.kept import Kept

if TYPE_CHECKING:
    from pyiceberg.io import InputFile
    from pyiceberg.table.metadata import TableMetadata

_MOST = 8 << 20  # bytes of JSON; parsed, they take several times as much


@dataclass(frozen=True)
class _Parsed:
    metadata: TableMetadata
    length: int


class KnownMetadata:
    """The metadata files that were read or written last. Callers must not modify them."""

    def __init__(self, most: int = _MOST) -> None:
        self._parsed: Kept[_Parsed] = Kept(most, lambda parsed: parsed.length)

    def read(self, file: InputFile) -> TableMetadata:
        return self._get(file, lambda: _parsed(file))

    def keep(self, file: InputFile, metadata: TableMetadata) -> None:
        """Remember what a file was written with."""
        self._get(file, lambda: metadata)

    def _get(self, file: InputFile, read: Callable[[], TableMetadata]) -> TableMetadata:
        length = len(file)
        return self._parsed.get(f"{file.location}#{length}", lambda: _Parsed(read(), length)).metadata


def _parsed(file: InputFile) -> TableMetadata:
    from pyiceberg.serializers import FromInputFile

    with collector.paused():
        return FromInputFile.table_metadata(file)
