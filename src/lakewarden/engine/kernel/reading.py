"""Reads one Parquet file in file order, a bounded number of bytes at a time.

A file is decoded batch by batch, all columns together. If it has so many columns that their open pages alone exceed the
budget, row groups are read a few columns at a time, one window of rows after another. Interpreting columns and
selecting rows is up to callers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.engine.kernel.memory import Budget
from lakewarden.engine.kernel.schema import Leaf, leaves
from lakewarden.engine.kernel.storage import TaskStorage

_PROBE_ROWS = 1024
_PROBE_FROM_ROWS = 1 << 17  # reading the first pages twice is cheap here, but not in small files
_LARGEST_BATCH_ROWS = 1 << 15  # more gains nothing, and later rows may be wider
_LEAST_WIDTH = 0.125  # bytes of a row: one bit
_PAGE_ROWS = 20_000  # at most, in a page by Java's writer or pyarrow's
_PAGE_BYTES = 5 << 18  # in a page by any writer with default settings, and some more
_KEEPS_PAGES_SHORT = re.compile(r"parquet-mr|parquet-cpp-arrow version (2[6-9]|[3-9]\d)")
_CODEC_BYTES = 3 << 16  # overhead of decompressing a column
_SMALLEST_BUFFER, _LARGEST_BUFFER = 1 << 14, 1 << 20  # of each column that is being read
_REMOTE_FACTOR = 3  # remote files are read in one go up to a larger size: requests are slow
_FEW_COLUMNS_BYTES = 3 << 20  # an upper limit for one column


@dataclass
class Widths:
    """Observed bytes per decoded row. What one file shows is used for the next."""

    row: float = 0.0
    columns: dict[str, float] = field(default_factory=dict)

    def see(self, batch: Any) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self.columns[name] = max(self.columns.get(name, 0.0), column.nbytes / batch.num_rows)


class ParquetInput:
    """One open file. Batches come in file order, and stay close to the budget's batch size."""

    def __init__(self, storage: TaskStorage, location: str, budget: Budget, widths: Widths | None = None) -> None:
        self._budget, self._widths = budget, widths or Widths()
        self._is_local = storage.is_local(location)
        self._closing = ExitStack()
        try:
            source = self._closing.enter_context(storage.open(location))
            size, is_whole = source.size(), False
            if size <= budget.whole_file * (1 if self._is_local else _REMOTE_FACTOR):
                source, is_whole = pa.BufferReader(source.read_buffer(size)), True
            self._reading = max(budget.reading // 4, budget.reading - size) if is_whole else budget.reading
            self.metadata = pq.ParquetFile(source, pre_buffer=False).metadata
            self._buffer_size = 0 if is_whole else self._buffer()
            self._file = pq.ParquetFile(
                source,
                metadata=self.metadata,
                pre_buffer=False,
                buffer_size=self._buffer_size,
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
            )
        except BaseException:
            self._closing.close()
            raise
        self.schema = self._file.schema_arrow
        self.rows = int(self.metadata.num_rows)

    def __enter__(self) -> ParquetInput:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def batches(
        self,
        columns: Sequence[int],
        room: Callable[[], int],
        added: float = 0.0,
        row_groups: Iterable[int] | None = None,
    ) -> Iterator[Any]:
        """All rows of these columns, given as ascending indexes into `schema`; or only those of some row groups.

        `room` returns how many more bytes the consumer would like, `added` is how many bytes it adds to each row.
        """
        for number in range(self.metadata.num_row_groups) if row_groups is None else row_groups:
            rows = self.metadata.row_group(number).num_rows
            if rows == 0:
                continue
            parts = self._parts(number, columns)
            if len(parts) > 1:
                yield from self._windows(number, parts, room, added)
                continue
            if rows >= _PROBE_FROM_ROWS or not self._widths.row:
                first = self._probe(number, columns)
                self._widths.row = first.nbytes / first.num_rows + added
            for batch in self._iterate(number, columns, self._widths.row):
                self._widths.row = max(self._widths.row, batch.nbytes / batch.num_rows + added)
                yield batch

    def _iterate(self, number: int, columns: Sequence[int], width: float) -> Iterator[Any]:
        """The batches of a row group; `width` is the observed size of a decoded row."""
        row_group = self.metadata.row_group(number)
        if len(columns) == len(self.schema):
            width = max(width, row_group.total_byte_size / row_group.num_rows)
        rows = max(1, min(_LARGEST_BATCH_ROWS, int(self._budget.batch / max(width, _LEAST_WIDTH))))
        return self._batches(number, columns, rows)

    def _batches(self, number: int, columns: Sequence[int], rows: int) -> Iterator[Any]:
        names = [self.schema.field(index).name for index in columns]
        chosen = None if len(names) == len(self.schema) else names
        for batch in self._file.iter_batches(rows, row_groups=[number], columns=chosen, use_threads=False):
            if batch.num_rows:  # "a.b" also selects b in a
                yield batch if chosen is None or batch.schema.names == names else batch.select(names)

    def _probe(self, number: int, columns: Sequence[int]) -> Any:
        """Decode a few rows to measure their width. The footer lacks it: dictionaries hide the length of texts."""
        row_group = self.metadata.row_group(number)
        stored = max(row_group.total_byte_size / row_group.num_rows, _LEAST_WIDTH)
        return next(self._batches(number, columns, max(1, min(_PROBE_ROWS, int(self._budget.batch / stored)))))

    def _windows(self, number: int, parts: list[list[int]], room: Callable[[], int], added: float) -> Iterator[Any]:
        """Read a wide row group in windows of rows, each window a few columns at a time.

        Each group of columns is decoded from the row group's first row again for every window: this costs time, not
        memory.
        """
        rows = self.metadata.row_group(number).num_rows
        for part in parts:
            if rows >= _PROBE_FROM_ROWS or self._width(part) is None:
                self._widths.see(self._probe(number, part))
        start = 0
        while start < rows:
            free = max(room(), self._budget.row_group // 4)
            width = sum(self._width(part) or 0.0 for part in parts) + added
            stop = min(rows, start + max(1, int(free / max(width, _LEAST_WIDTH))))
            yield from self._window(number, parts, start, stop).to_batches()
            start = stop

    def _window(self, number: int, parts: list[list[int]], start: int, stop: int) -> Any:
        columns: list[Any] = []
        for part in parts:
            found = list(_within(self._iterate(number, part, self._width(part) or 0.0), start, stop))
            self._widths.see(max(found, key=lambda batch: batch.nbytes / batch.num_rows))
            columns += [pa.chunked_array([batch.column(at) for batch in found]) for at in range(len(part))]
        fields = [self.schema.field(index) for part in parts for index in part]
        return pa.table(columns, schema=pa.schema(fields))

    def _width(self, columns: Sequence[int]) -> float | None:
        """The known width of these columns together; None if one is unknown."""
        found = [self._widths.columns.get(self.schema.field(index).name) for index in columns]
        return None if None in found else sum(width for width in found if width is not None)

    def _parts(self, number: int, columns: Sequence[int]) -> list[list[int]]:
        """Columns that can be read together: all of them, unless the file has very many."""
        if self.metadata.num_columns * _FEW_COLUMNS_BYTES <= self._reading:
            return [list(columns)]
        states = self._states(number)
        parts: list[list[int]] = [[]]
        taken = 0
        for index in columns:
            if parts[-1] and taken + states[index] > self._reading:
                parts.append([])
                taken = 0
            parts[-1].append(index)
            taken += states[index]
        return parts

    def _states(self, number: int) -> list[int]:
        """The memory that each column needs while it is read: a page, a dictionary, a buffer."""
        row_group = self.metadata.row_group(number)
        page_rows = _PAGE_ROWS if _KEEPS_PAGES_SHORT.match(str(self.metadata.created_by)) else None
        states: list[int] = []
        chunk = 0
        for column in self.schema:
            state = 0
            for _ in leaves([column]):
                state += _state(row_group.column(chunk), page_rows) + self._buffer_size + _CODEC_BYTES
                chunk += 1
            states.append(state)
        return states

    def _buffer(self) -> int:
        if not self._is_local:
            return _LARGEST_BUFFER
        share = self._budget.reading // 4 // max(1, int(self.metadata.num_columns))
        return max(_SMALLEST_BUFFER, min(_LARGEST_BUFFER, share))


def dictionaries(metadata: Any) -> Iterator[tuple[Leaf, int, bool]]:
    """For each column chunk in a footer: its leaf, its number of values, and whether a dictionary covers it."""
    found = leaves(metadata.schema.to_arrow_schema())
    for number in range(metadata.num_row_groups):
        row_group = metadata.row_group(number)
        for index, leaf in enumerate(found):
            chunk = row_group.column(index)
            yield leaf, chunk.num_values, _has_useful_dictionary(chunk)


def _within(batches: Iterator[Any], start: int, stop: int) -> Iterator[Any]:
    position = 0
    for batch in batches:
        begin, end = max(start - position, 0), min(stop - position, batch.num_rows)
        if (begin, end) == (0, batch.num_rows):
            yield batch
        elif begin < end:  # a copy, so that a few rows do not keep the whole batch in memory
            columns = [pa.concat_arrays([column]) for column in batch.slice(begin, end - begin).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        position += batch.num_rows
        if position >= stop:
            return


def _state(chunk: Any, page_rows: int | None) -> int:
    size = chunk.total_uncompressed_size
    page = min(size, _PAGE_BYTES)
    if page_rows is not None and chunk.num_values:
        page = min(page, size * page_rows // chunk.num_values)
    # Only the dictionary's compressed size is known; it is kept as a page and once more decoded.
    dictionary = min(size, 4 * _dictionary_bytes(chunk)) if chunk.has_dictionary_page else 0
    return int(page + 2 * dictionary)


def _dictionary_bytes(chunk: Any) -> int:
    return max(0, int(chunk.data_page_offset - (chunk.dictionary_page_offset or 0)))


def _has_useful_dictionary(chunk: Any) -> bool:
    """Whether the dictionary covers the whole chunk. Writers abandon one that grows too large."""
    encodings = set(chunk.encodings)
    if not encodings & {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}:
        return False
    if "PLAIN" not in encodings:
        return True
    if "PLAIN_DICTIONARY" in encodings:
        return False  # here PLAIN can only mean pages without it
    # Here the dictionary itself is PLAIN, and the footer does not say whether pages are. Their size does.
    bytes_plain = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}.get(chunk.physical_type)
    if bytes_plain is not None:
        return bool(chunk.total_uncompressed_size < 0.75 * bytes_plain * chunk.num_values)
    dictionary, indices = _dictionary_bytes(chunk), 2.75 * chunk.num_values  # an index takes 20 bits at most
    if chunk.total_compressed_size - dictionary > indices:
        return False
    return bool(chunk.total_uncompressed_size <= indices + 20 * dictionary)  # for texts that compress well
