"""Metadata files of tables, parsed once: they never change, and one with many snapshots takes long to parse.

Which file is a table's current one is asked of its catalog each time, and so is whether the file is still there, with
the length that it had: what was deleted or cut off is not answered from memory.
"""

from __future__ import annotations

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
    """What the metadata files say that were read last. Nobody may change it."""

    def __init__(self, most: int = _MOST) -> None:
        self._parsed: Kept[_Parsed] = Kept(most, lambda parsed: parsed.length)

    def read(self, file: InputFile) -> TableMetadata:
        length = len(file)
        return self._parsed.get(f"{file.location}#{length}", lambda: _Parsed(_parsed(file), length)).metadata


def _parsed(file: InputFile) -> TableMetadata:
    from pyiceberg.serializers import FromInputFile

    with collector.paused():
        return FromInputFile.table_metadata(file)
