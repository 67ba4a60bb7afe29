"""Writes a group's rows: row groups limited by bytes, files that roll over at their target size.

Encodings follow those of the inputs. `checksum.py` reads files back and compares them; publishing them is up to
callers.
"""

from __future__ import annotations

import inspect
import math
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.engine.kernel.checksum import Checksum, checksum_of_file
from lakewarden.engine.kernel.memory import Budget
from lakewarden.engine.kernel.messages import Bloom, Layout, Output, RewriteFault, first_line
from lakewarden.engine.kernel.reading import dictionaries
from lakewarden.engine.kernel.schema import Leaf, children, field_id, is_text_or_bytes, leaves, nan_counts
from lakewarden.engine.kernel.storage import TaskStorage

_MOST_ROWS = 1 << 23  # in a row group: rows may be of a few bits
_SAMPLE_ROWS = 1 << 19
_FEW_VALUES, _MANY_VALUES = 1 << 10, 1 << 13  # values per page check; more gains nothing
_LONG_PAGES = 8  # how many times a run of the longest values may exceed the page size
_CODECS = {"uncompressed": "NONE", "lz4_raw": "LZ4"}


class DictionaryVotes:
    """The columns for which the inputs used a dictionary, weighted by values.

    Adding a dictionary where there was none takes time and, with pyarrow's defaults, a quarter more space.
    """

    def __init__(self) -> None:
        self._balance: dict[int | str, int] = {}

    def count(self, metadata: Any) -> None:
        for leaf, values, useful in dictionaries(metadata):
            self.add(leaf, values if useful else -values)

    def add(self, leaf: Leaf, balance: int) -> None:
        """Count values for a dictionary, or against it."""
        self._balance[leaf.key] = self._balance.get(leaf.key, 0) + balance

    def won(self, leaf: Leaf) -> bool:
        return self._balance.get(leaf.key, 0) > 0 and not pa.types.is_boolean(leaf.type)


class Outputs:
    """The output files of one group."""

    def __init__(self, storage: TaskStorage, place: str, layout: Layout, budget: Budget) -> None:
        """`place` is the prefix of every file's path."""
        self._storage, self._layout, self._budget = storage, layout, budget
        self._place = place
        self._token = uuid.uuid4().hex[:12]  # a retried task never overwrites files of the first attempt
        self._schema: Any = None
        self._votes = DictionaryVotes()
        self._source: str | None = None
        self._begun: list[str] = []
        self._file: _OutputFile | None = None
        self._pending: list[Any] = []
        self._pending_bytes = self._pending_rows = 0
        self._checksum: Checksum | None = None
        self._shrinking = 1.0  # bytes on disk per byte in memory, by the last row group
        self._nulls: dict[int, int] = {}  # of the current file
        self._nans: dict[int, int] = {}
        self.done: list[Output] = []
        self.checksums: list[tuple[str, str]] = []  # of each file: as written, and as read back

    def begin(self, schema: Any, votes: DictionaryVotes, source: str | None = None) -> None:
        """Set the schema of the rows to come, and the input they come from if inputs must not be mixed."""
        self._schema, self._votes, self._source = schema, votes, source

    def room(self) -> int:
        """How many more bytes of rows may be buffered."""
        return max(0, self._row_group_bytes - self._pending_bytes)

    def add(self, batch: Any) -> None:
        if batch.num_rows == 0:
            return
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self._pending_rows += batch.num_rows
        if self._pending_bytes >= self._row_group_bytes or self._pending_rows >= _MOST_ROWS:
            self.flush()

    def end(self) -> None:
        """Close the current file, if there is one. Files without rows are not written."""
        self.flush()
        self._roll()

    def abandon(self) -> None:
        """Delete all files, if storage allows."""
        self._pending = []
        if self._file is not None:
            self._file.abandon()
        for path in self._begun:
            self._storage.remove(path)
        self.done = []

    @property
    def _row_group_bytes(self) -> int:
        return min(self._budget.row_group, int(self._layout.row_group_bytes / self._shrinking))

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, schema=self._pending[0].schema)
        self._count(table)
        if self._file is None:
            path = f"{self._place}-{len(self._begun):03d}-{self._token}.parquet"
            self._begun.append(path)
            options = _options(self._layout, self._schema, self._votes, table)
            self._file = _OutputFile(self._storage, path, self._schema, options)
            self._checksum = Checksum(self._schema) if self._layout.verify == "full" else None
        written = self._file.write(table)
        if self._checksum is not None:
            for batch in self._pending:
                self._checksum.update(batch)
        self._shrinking = max(written / max(self._pending_bytes, 1), 0.01)
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0
        del table
        self._budget.release()
        if self._source is None and self._file.bytes >= self._layout.target_bytes:
            self._roll()

    def _roll(self) -> None:
        if self._file is None:
            return
        output = self._file.close(self._source, self._nulls, self._nans)
        self._file, self._nulls, self._nans = None, {}, {}
        self.done.append(output)
        if self._checksum is not None:
            written, found = self._checksum.digest(), checksum_of_file(self._storage, output.path, self._budget)
            self.checksums.append((written, found))
            if written != found:
                raise RewriteFault("checksum", "contains other values than were written to it", output.path)

    def _count(self, table: Any) -> None:
        """Count nulls, to compare with the footer, and NaN, which footers do not count."""
        for floating, nans in nan_counts(table, self._schema).items():
            self._nans[floating] = self._nans.get(floating, 0) + nans
        for index, field in enumerate(self._schema):
            identity = field_id(field)
            if identity is not None and not children(field.type):
                self._nulls[identity] = self._nulls.get(identity, 0) + table.column(index).null_count


class _OutputFile:
    def __init__(self, storage: TaskStorage, path: str, schema: Any, options: dict[str, Any]) -> None:
        self._path = path
        self._rows = self._row_groups = 0
        self._writer: Any = None
        with naming(path):
            self._sink = storage.create(path)
            self._writer = pq.ParquetWriter(self._sink, schema, **options)
            if schema.metadata:
                self._writer.add_key_value_metadata(schema.metadata)

    @property
    def bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, table: Any) -> int:
        """Write one row group; returns its size in bytes."""
        before = self.bytes
        with naming(self._path):
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._row_groups += 1
        return self.bytes - before

    def close(self, source: str | None, nulls: dict[int, int], nans: dict[int, int]) -> Output:
        with naming(self._path):
            self._writer.close()
            size = self.bytes
            self._sink.close()
        return Output(self._path, self._rows, size, self._row_groups, source, nulls, nans)

    def abandon(self) -> None:
        for part in (self._writer, self._sink):
            with suppress(Exception):
                part.close()


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file that could not be written."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RewriteFault("unwritable", first_line(error), path) from error


def _options(layout: Layout, schema: Any, votes: DictionaryVotes, table: Any) -> dict[str, Any]:
    found = leaves(schema)
    with_dictionary = {leaf.path for leaf in found if votes.won(leaf) and not _outgrows(leaf, table, layout)}
    codec = layout.codec.lower()
    options: dict[str, Any] = {
        "version": "2.6",
        "data_page_version": "1.0",
        "compression": _CODECS.get(codec, codec.upper()),
        "compression_level": 1 if layout.level is None and codec == "zstd" else layout.level,
        "use_dictionary": sorted(with_dictionary),
        "column_encoding": {leaf.path: _plain(leaf, layout) for leaf in found if leaf.path not in with_dictionary},
        "dictionary_pagesize_limit": layout.dictionary_bytes,
        "data_page_size": layout.page_bytes,
        "write_batch_size": _values_at_once(table, layout),
        "store_schema": False,
        "store_decimal_as_integer": True,  # as Iceberg's own writer does
        "write_page_index": True,
        "write_page_checksum": True,
    }
    paths = {leaf.path for leaf in found}
    blooms = {bloom.column: _bloom(bloom, table.num_rows) for bloom in layout.bloom if bloom.column in paths}
    if blooms and "bloom_filter_options" in inspect.signature(pq.ParquetWriter).parameters:
        options["bloom_filter_options"] = blooms
    return options


def _plain(leaf: Leaf, layout: Layout) -> str:
    return "DELTA_BINARY_PACKED" if layout.delta_encoding and _counts(leaf.type) else "PLAIN"


def _counts(type_: Any) -> bool:
    """Whether Parquet stores the values as integers."""
    is_ = pa.types
    whole = is_.is_int32(type_) or is_.is_int64(type_) or is_.is_date32(type_)
    return bool(whole or is_.is_timestamp(type_) or is_.is_time(type_))


def _outgrows(leaf: Leaf, table: Any, layout: Layout) -> bool:
    """Whether a column's dictionaries, each small in its file, are too large together.

    Such a column would fall back to plain integers halfway, which take far more space than deltas.
    """
    index = table.schema.get_field_index(leaf.path)  # -1 within lists and structs
    if index < 0 or not layout.delta_encoding or not _counts(leaf.type):
        return False
    column = table.column(index)
    seen = min(len(column), _SAMPLE_ROWS)  # counting takes memory
    half, whole = (pc.count_distinct(column.slice(0, rows)).as_py() for rows in (seen // 2, seen))
    growth = (whole - half) / max(1, seen - seen // 2)
    distinct = whole + growth * (len(column) - seen)
    return bool(distinct * leaf.type.bit_width // 8 > layout.dictionary_bytes)


def _values_at_once(table: Any, layout: Layout) -> int:
    """How many values are written before a page may end: few if values are long, many if even the longest is short."""
    usual = max((column.nbytes for column in table.columns), default=0) / table.num_rows
    longest = max((_longest(column) for column in table.columns), default=0)
    most = _MANY_VALUES if longest * _MANY_VALUES <= layout.page_bytes * _LONG_PAGES else _FEW_VALUES
    return max(1, min(most, int(layout.page_bytes / max(usual, 1))))


def _longest(column: Any) -> float:
    """The size of a column's longest value in bytes; infinite for nested types and views, where it is unknown."""
    if children(column.type) or "view" in str(column.type):
        return math.inf
    return (pc.max(pc.binary_length(column)).as_py() or 0) if is_text_or_bytes(column.type) else 0


def _bloom(bloom: Bloom, rows: int) -> dict[str, Any]:
    """Size for the requested number of distinct values, or one per row, within the maximum size."""
    bits_for_each = -8 / math.log(1 - bloom.false_positives ** (1 / 8))
    served = int(bloom.max_bytes * 8 / bits_for_each)
    return {"ndv": max(1, min(bloom.distinct or rows, served)), "fpp": bloom.false_positives}
