"""Rewrites position delete files that mask rows of replaced data files, with the rows' new positions.

Each is streamed and written once, however many versions share it and however often the commit is retried. It stays in
the same partition, applies to one data file only if it did before, and as a hide file serves the same requests. Copies
of deleted rows, which such files may contain, are left out. Callers list the new file in manifests.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.new_snapshot import delete_leftovers
from lakewarden.engine.files.live_files import masked_rows
from lakewarden.engine.files.manifests import Manifests, referenced_data_file
from lakewarden.engine.rows.position_deletes import PATH_ID, file_name, is_hide, served_requests, write_rows
from lakewarden.errors import BrokenTable, StalePlan

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table

    from lakewarden.engine.history.replacement import Cleansing, Replacement
    from lakewarden.lifecycle.basics import Stamp

_BATCH_ROWS = 1 << 16
_REFERENCED = 17  # index of field 143 in a data file: the data file that deletes apply to


class CarriedDeletes:
    """The rewritten position delete files of one change."""

    def __init__(self, change: Cleansing, stamp: Stamp, reader: Manifests) -> None:
        self._replacements: Mapping[str, Replacement] = change.replacements
        self._obsolete = change.obsolete
        self._about = f"table {change.table}"
        self._names = sorted(name.encode() for name in {*change.replacements, *change.obsolete})
        self._stamp, self._reader = stamp, reader
        self._token = secrets.token_hex(4)
        self._made: dict[str, DataFile | None] = {}
        self._number = count()
        self._used: set[str] = set()
        self._waiting: set[str] = set()  # written, but not committed

    def concerns(self, io: FileIO, entry: ManifestEntry) -> bool:
        """Whether a delete file masks rows of a replaced data file; for removed files, as far as bounds show."""
        from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus

        file = entry.data_file
        if file.content != DataFileContent.POSITION_DELETES:
            return False
        only_for = referenced_data_file(file)
        if only_for is not None:
            return self._is_replaced(only_for)
        if not self._may_name(file):
            return False
        if entry.status == ManifestEntryStatus.DELETED:
            return True
        if file.file_format != FileFormat.PARQUET:
            raise StalePlan(
                f"the plan is stale: {self._about} now has position deletes in {file.file_format.value}",
                "Nothing was written. Plan again.",
            )
        named = self._reader.masks(file.file_path, lambda: masked_rows(io, file.file_path, self._about))
        return any(self._is_replaced(name) for name in named)

    def carried(self, table: Table, file: DataFile) -> DataFile | None:
        """The replacement of a position delete file; None if no masked row is left."""
        if file.file_path not in self._made:
            self._made[file.file_path] = self._carry(table, file)
        made = self._made[file.file_path]
        if made is not None:
            self._used.add(made.file_path)
        return made

    @property
    def used(self) -> int:
        """The number of new files in the current attempt."""
        return len(self._used)

    def begin(self) -> None:
        """Begin another attempt: files written for earlier ones are reused if needed again."""
        self._used.clear()

    def settle(self, io: FileIO, landed: bool) -> None:
        """Delete unreferenced new files: what the committed attempt did not use, or all since the last commit."""
        unused = self._waiting - self._used if landed else self._waiting
        delete_leftovers(io, unused)
        self._made = {old: made for old, made in self._made.items() if made is None or made.file_path not in unused}
        self._waiting = set()

    def _is_replaced(self, name: str) -> bool:
        return name in self._replacements or name in self._obsolete

    def _may_name(self, file: DataFile) -> bool:
        """Whether its bounds allow for one of the names. They may be truncated, the upper one incremented."""
        low, high = (file.lower_bounds or {}).get(PATH_ID, b""), (file.upper_bounds or {}).get(PATH_ID)
        place = bisect_left(self._names, low)
        return place < len(self._names) and (high is None or self._names[place] <= high)

    def _carry(self, table: Table, file: DataFile) -> DataFile | None:
        positions: dict[str, list[Any]] = {}
        for name, some in self._read(table.io, file):
            moved = self._moved(name, some)
            if moved is not None and len(moved[1]):
                positions.setdefault(moved[0], []).append(moved[1])
        if not positions:
            return None
        path = f"{staging_folder(table, self._stamp)}/{self._name(file)}"
        self._waiting.add(path)
        served = served_requests(file.file_path, lambda path: table.io.new_input(path).open())
        rows = write_rows(table.io, path, positions, served)
        return _entry(file, path, len(table.io.new_input(path)), rows, sorted(positions, key=str.encode))

    def _name(self, file: DataFile) -> str:
        number = next(self._number)
        if is_hide(file.file_path):
            return file_name(self._stamp, self._token, number)
        return f"{self._token}-{number}-deletes.parquet"

    def _read(self, io: FileIO, file: DataFile) -> Iterator[tuple[str, Any]]:
        import numpy
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = ["file_path", "pos"]
        try:
            with translating(self._about), io.new_input(file.file_path).open() as stream:
                parquet = pq.ParquetFile(stream, pre_buffer=False, read_dictionary=columns[:1])
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                    names, at = batch.column("file_path"), batch.column("pos").to_numpy()
                    places = names.indices.to_numpy()
                    order = numpy.argsort(places, kind="stable")
                    found, starts = numpy.unique(places[order], return_index=True)
                    for place, some in zip(found, numpy.split(at[order], starts[1:]), strict=True):
                        yield names.dictionary[int(place)].as_py(), some
        except pa.ArrowInvalid as error:
            raise BrokenTable(
                f"{self._about}: the delete file {file.file_path} cannot be read", "Check that it is a Parquet file."
            ) from error

    def _moved(self, name: str, positions: Any) -> tuple[str, Any] | None:
        """The new file and positions of rows; None if all were dropped."""
        import numpy

        if name in self._obsolete:
            return None
        replacement = self._replacements.get(name)
        if replacement is None:
            return name, positions
        if replacement.file is None:
            return None
        dropped = numpy.asarray(replacement.dropped, dtype=numpy.int64)
        before = numpy.searchsorted(dropped, positions, side="left")
        up_to = numpy.searchsorted(dropped, positions, side="right")
        return replacement.file.file_path, (positions - before)[before == up_to]


def _entry(before: DataFile, path: str, size: int, rows: int, names: list[str]) -> DataFile:
    """The entry of a new file. Equal bounds mean that it applies to one data file only: kept only if it did before."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    referenced = before._data[_REFERENCED] if len(before._data) > _REFERENCED else None
    for_one = referenced_data_file(before) is not None
    file = DataFile.from_args(
        _table_format_version=3,  # for referenced_data_file, which v2 has too but PyIceberg lacks
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=before.partition,
        record_count=rows,
        file_size_in_bytes=size,
        lower_bounds={PATH_ID: names[0].encode()},
        upper_bounds={PATH_ID: (names[-1] if for_one or names[1:] else f"{names[-1]}~").encode()},
        referenced_data_file=names[0] if referenced else None,
    )
    file.spec_id = before.spec_id
    return file
