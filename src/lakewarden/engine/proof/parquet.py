"""Searches Parquet data and delete files for key values: rows, dictionaries, statistics and footers.

A key's column is found by field id, or by any name it ever had if a file has no ids or is not referenced. Rows are
decoded by type; `texts.py` searches everything else as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.proof.pages import dictionary_tokens
from lakewarden.engine.proof.texts import Pile, Texts
from lakewarden.engine.proof.wanted import Trace, WantedKey

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ColumnChunkMetaData, ParquetFile

PATHS_OF_DELETES = 2147483546  # the field id of the column with the paths of data files
_ROWS = 1 << 16
_MOST_ROWS = 1 << 20
_BUFFER = 1 << 20
_FIELD_ID = b"PARQUET:field_id"
Leaf = tuple[tuple[str, ...], int | None]  # the path of a column, name by name, and its field id


@dataclass(frozen=True)
class Column:
    """A column of a file that holds a key, by its path of names."""

    names: tuple[str, ...]

    @property
    def path(self) -> str:
        return ".".join(self.names)


def look(source: Any, keys: Sequence[WantedKey], texts: Texts, by_name: bool) -> tuple[list[Trace], list[range], bool]:
    """Traces in a file's key columns, the byte ranges of those columns, and whether it is a position delete file."""
    traces: list[Trace] = []
    spans: list[range] = []
    with opened(source) as file:
        schema = file.schema_arrow
        leaves = list(_leaves(schema))
        for key in keys:
            for column in _columns_among(leaves, key, by_name):
                chunks = _chunks(file, column)
                spans += [span(chunk) for chunk in chunks]
                traces += _in_column(file, column, chunks, source, key)
        paths = [names for names, number in leaves if _is_path(names, number, schema)]
        traces += _in_paths(file, paths, texts)
        traces += _in_footer(file, texts)
    return traces, spans, bool(paths)


def opened(source: Any) -> ParquetFile:
    """A file to read page by page: a whole column may not fit into memory."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER)


def columns_of(schema: pa.Schema, key: WantedKey, by_name: bool) -> list[Column]:
    """The columns of a file that hold a key."""
    return _columns_among(list(_leaves(schema)), key, by_name)


def _columns_among(leaves: Sequence[Leaf], key: WantedKey, by_name: bool) -> list[Column]:
    if any(number is not None for _, number in leaves) and not by_name:
        return [Column(names) for names, number in leaves if number == key.field_id]
    return [
        Column(names)
        for names, number in leaves
        if number == key.field_id or ".".join(names).lower().removeprefix("row.") in key.names
    ]


def values_of(file: ParquetFile, column: Column, rows: int = _ROWS) -> Iterator[pa.Array]:
    """The values of a column, in batches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in file.iter_batches(rows, columns=[column.path], use_threads=False):
        values = batch.column(batch.schema.get_field_index(column.names[0]))
        if column.names[1:]:
            values = pc.struct_field(values, list(column.names[1:]))
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        yield values


def matches(values: pa.Array, key: WantedKey) -> pa.Array:
    """Which values are among the key's; values of another type are compared as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.is_in(values.cast(key.arrow.type), value_set=key.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = pa.array(sorted(key.texts), pa.string())
        return pc.is_in(values.cast(pa.string()), value_set=texts)


def span(chunk: ColumnChunkMetaData) -> range:
    """The byte range of a column chunk."""
    start = min(at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at)
    return range(start, start + chunk.total_compressed_size)


def column_at(source: Any, offset: int) -> str:
    """The column whose pages are at an offset; empty if none."""
    with opened(source) as file:
        for group in range(file.metadata.num_row_groups):
            found = file.metadata.row_group(group)
            for number in range(found.num_columns):
                if offset in span(found.column(number)):
                    return str(found.column(number).path_in_schema)
    return ""


def _in_column(
    file: ParquetFile, column: Column, chunks: Sequence[ColumnChunkMetaData], source: Any, key: WantedKey
) -> Iterator[Trace]:
    import pyarrow.compute as pc

    at_once = min(max(_ROWS, 2 * len(key.texts)), _MOST_ROWS)  # the values are prepared again for each batch
    rows = sum(pc.sum(matches(values, key)).as_py() or 0 for values in values_of(file, column, at_once))
    if rows:
        yield Trace(f"column {column.path}, {rows} {'row' if rows == 1 else 'rows'}")
    for chunk in chunks:
        if any(token in key.tokens for token in dictionary_tokens(source, chunk, key)):
            if not rows:
                yield Trace(f"dictionary of column {column.path}")
            break
    yield from _in_statistics(column, chunks, key)


def _in_statistics(column: Column, chunks: Sequence[ColumnChunkMetaData], key: WantedKey) -> Iterator[Trace]:
    where = f"statistics of column {column.path}"
    for chunk in chunks:
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is not None and statistics.has_min_max:
            yield from key.lower(key.token(statistics.min), where)
            yield from key.upper(key.token(statistics.max), where)


def _in_paths(file: ParquetFile, columns: Sequence[tuple[str, ...]], texts: Texts) -> Iterator[Trace]:
    """Delete files contain paths of data files, which may contain a value."""
    import pyarrow.compute as pc

    pile = Pile(texts)
    for names in columns:
        for values in values_of(file, Column(names)):
            for path in pc.unique(values).to_pylist():
                yield from pile.path(str(path), "path of a data file")
    yield from pile.end()


def _is_path(names: tuple[str, ...], number: int | None, schema: pa.Schema) -> bool:
    """Whether a column holds the data file paths of a delete file."""
    return number == PATHS_OF_DELETES or (names == ("file_path",) and "pos" in schema.names)


def _in_footer(file: ParquetFile, texts: Texts) -> Iterator[Trace]:
    """Key-value metadata of a footer; Arrow's schema is base64-encoded there, so it is searched decoded."""
    for noted in (file.metadata.metadata or {}, file.schema_arrow.metadata or {}):
        for name, value in noted.items():
            yield from texts.content(name + b"\0" + value, "footer")


def _chunks(file: ParquetFile, column: Column) -> list[ColumnChunkMetaData]:
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    every = (group.column(number) for group in groups for number in range(group.num_columns))
    return [chunk for chunk in every if chunk.path_in_schema == column.path]


def _leaves(schema: pa.Schema) -> Iterator[Leaf]:
    """Every column that is not a struct, with its field id; keys are never within lists and maps."""
    import pyarrow as pa

    def walk(field: pa.Field, above: tuple[str, ...]) -> Iterator[Leaf]:
        names = (*above, field.name)
        if pa.types.is_struct(field.type):
            for number in range(field.type.num_fields):
                yield from walk(field.type.field(number), names)
        else:
            field_id = (field.metadata or {}).get(_FIELD_ID)
            yield names, int(field_id) if field_id is not None else None

    for field in schema:
        yield from walk(field, ())
