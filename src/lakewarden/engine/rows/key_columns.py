"""Searches one Parquet file for rows with key values: reads its footer first, then its key columns, nothing else.

Columns are found by field id, also within structs. Row groups are skipped by statistics and Bloom filters. Rows are
read in batches, so memory is bounded. `pruning.py` decides which files to search.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import quietly_read
from lakewarden.engine.rows.bloom_filter import MOST_VALUES, may_hold

if TYPE_CHECKING:
    from lakewarden.engine.kernel.schema import Leaf
    from lakewarden.engine.rows.key_values import KeyValues
    from lakewarden.engine.storage.storage import StoredFiles

_BATCH_ROWS = 1 << 16
_BUFFER = 1 << 20
_FEW_ROWS = 10_000
_SMALL = 1 << 19


@dataclass(frozen=True, slots=True)
class Looked:
    """The number of matching rows, and whether pages had to be read."""

    matching: int
    was_read: bool
    bytes_read: int


@dataclass(frozen=True)
class _Column:
    key: KeyValues
    path: str
    chunk: int
    length: int


def look_into(
    storage: StoredFiles,
    path: str,
    keys: Sequence[KeyValues],
    by_partition: Collection[int],
    about: str,
    is_mapped: bool = False,
    size: int | None = None,
) -> Looked:
    """Count a file's rows that hold a value of one of the keys, whether or not deletes mask them.

    If the file lacks a key column and its partition is one of the key's values (`by_partition`), all rows match. Small
    files are read at once.
    """
    import pyarrow as pa

    hint = "Restore it, or expire the versions that have it."
    with quietly_read(path, hint, about, is_mapped), storage.open(path) as source:
        is_small = size is not None and size <= _SMALL
        return _look(pa.BufferReader(source.read_buffer()) if is_small else source, keys, by_partition)


def _look(source: Any, keys: Sequence[KeyValues], by_partition: Collection[int]) -> Looked:
    import pyarrow.parquet as pq

    first = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
    footer = first.metadata
    columns = list(_columns(footer, keys))
    lacking = {key.field_id for key in keys} - {column.key.field_id for column in columns}
    if lacking & set(by_partition):
        return Looked(footer.num_rows, False, footer.serialized_size)
    groups = [number for number in range(footer.num_row_groups) if _may_hold(source, footer, number, columns)]
    if not groups:
        return Looked(0, False, footer.serialized_size)
    file = first if footer.num_rows <= _FEW_ROWS else _by_dictionaries(source, footer, columns)
    matching = sum(_matching(batch, columns) for batch in _batches(file, groups, columns))
    chunks = (footer.row_group(number).column(column.chunk) for number in groups for column in columns)
    return Looked(matching, True, footer.serialized_size + sum(chunk.total_compressed_size for chunk in chunks))


def _by_dictionaries(source: Any, footer: Any, columns: Sequence[_Column]) -> Any:
    """A reader that keeps dictionary-encoded columns encoded; not worth it for few rows."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        source,
        metadata=footer,
        pre_buffer=False,
        buffer_size=_BUFFER,
        read_dictionary=_served_by_dictionaries(footer, columns),
        page_checksum_verification=True,
    )


def _columns(footer: Any, keys: Sequence[KeyValues]) -> Iterator[_Column]:
    """The key columns that a file has; one added after the file was written holds no values in it."""
    from lakewarden.engine.kernel.messages import RewriteFault
    from lakewarden.engine.kernel.schema import require_field_ids

    places = _places_of(footer.schema)
    for key in keys:
        if key.field_id not in places:
            require_field_ids(footer.schema.to_arrow_schema())
            continue
        number, leaf = places[key.field_id]
        if not key.can_be(leaf.type):
            raise RewriteFault("schema", f"column {leaf.path} is {leaf.type}, which cannot be read as {key.kind}")
        yield _Column(key, leaf.path, number, footer.schema.column(number).length or 0)


def _places_of(schema: Any) -> Mapping[int | None, tuple[int, Leaf]]:
    """The columns of a file by field id. Files of a table mostly have the same schema, so the last result is kept."""
    from lakewarden.engine.kernel.schema import leaves

    known = getattr(_last, "schema", None)
    paths = [schema.column(number).path for number in range(len(schema))]  # equal schemas may differ in struct names
    if known is None or not schema.equals(known) or paths != _last.paths:
        found = {leaf.field_id: (number, leaf) for number, leaf in enumerate(leaves(schema.to_arrow_schema()))}
        _last.schema, _last.paths, _last.places = schema, paths, found
    places: Mapping[int | None, tuple[int, Leaf]] = _last.places
    return places


_last = threading.local()


def _may_hold(source: Any, footer: Any, number: int, columns: Sequence[_Column]) -> bool:
    """Whether a row group may hold a value of any key."""
    row_group = footer.row_group(number)
    return any(_chunk_may_hold(source, row_group.column(column.chunk), column) for column in columns)


def _chunk_may_hold(source: Any, chunk: Any, column: _Column) -> bool:
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values:
        return False
    low = high = None
    if statistics is not None and statistics.has_min_max:
        low, high = column.key.statistic(statistics.min_raw), column.key.statistic(statistics.max_raw)
        if not column.key.may_be_within(low, high):
            return False
    few = column.key.within(low, high, MOST_VALUES)
    return few is None or may_hold(source, chunk, column.length, few)


def _served_by_dictionaries(footer: Any, columns: Sequence[_Column]) -> list[str]:
    """Text columns that are fully dictionary-encoded: each entry is looked up once instead of each row."""
    from lakewarden.engine.kernel.reading import dictionaries

    without = {leaf.field_id for leaf, _, is_useful in dictionaries(footer) if not is_useful}
    return [column.path for column in columns if column.key.kind == "string" and column.key.field_id not in without]


def _batches(file: Any, groups: Sequence[int], columns: Sequence[_Column]) -> Iterator[Any]:
    paths = [column.path for column in columns]
    yield from file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=paths, use_threads=False)


def _matching(batch: Any, columns: Sequence[_Column]) -> int:
    import pyarrow.compute as pc

    from lakewarden.engine.kernel.schema import column_at, find

    if not batch.num_rows:
        return 0
    masks = []
    for column in columns:
        place = find(batch.schema, column.key.field_id) or []  # "a.b" also selects b in a
        masks.append(column.key.matches(column_at(batch, place)))
    any_of = masks[0]
    for mask in masks[1:]:
        any_of = pc.or_(any_of, mask)
    return int(pc.sum(any_of).as_py() or 0)
