"""Whose rows data files hold: for each request, how many rows of each file, and which of its values.

Only key columns are read, and only of files that a search found. Values are at hand here while files are read; what
is made of them for writing down is up to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import quietly_read
from lakewarden.engine.rows.hidden_filter import comparable
from lakewarden.engine.rows.key_values import KeyValues, partition_value
from lakewarden.engine.rows.keys import as_arrow

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey

_READERS = 4
_BATCH_ROWS = 1 << 16
_HINT = "Restore it, or expire the versions that have it."


@dataclass
class Share:
    """What files hold of one request."""

    rows: dict[str, int] = field(default_factory=dict)
    """By file. A row that several of its values are in counts once."""
    values: set[str] = field(default_factory=set, repr=False)
    """The values that occur, as their canonical texts."""


@dataclass(frozen=True)
class _Column:
    """The values of all requests in one key column, and whose each is."""

    field_id: int
    texts: Sequence[str] = field(repr=False)
    owners: Sequence[Sequence[str]]
    values: Any = field(repr=False)


def shares(
    table: Table, keys: Mapping[str, Sequence[HiddenKey]], files: Sequence[DataFile], storage: StoredFiles
) -> dict[str, Share]:
    """What some data files hold of each request, masked or not; requests that they hold nothing of are left out."""
    columns = list(_columns(keys))
    found: dict[str, Share] = {}
    with ThreadPoolExecutor(_READERS, thread_name_prefix="shares") as readers:
        looked = readers.map(lambda file: _look(table, storage, file, columns, keys), files)
        for file, (rows, values) in zip(files, looked, strict=True):
            for request, places in rows.items():
                share = found.setdefault(request, Share())
                share.rows[file.file_path] = len(places)
                share.values |= values[request]
    return found


def _columns(keys: Mapping[str, Sequence[HiddenKey]]) -> Iterator[_Column]:
    owners: dict[tuple[int, str], dict[str, list[str]]] = {}
    for request, some in keys.items():
        for key in some:
            of_value = owners.setdefault((key.field_id, key.kind), {})
            for text in key.values:
                of_value.setdefault(text, []).append(request)
    for (field_id, kind), of_value in owners.items():
        yield _Column(field_id, list(of_value), list(of_value.values()), as_arrow(kind, list(of_value)))


def _look(
    table: Table,
    storage: StoredFiles,
    file: DataFile,
    columns: Sequence[_Column],
    keys: Mapping[str, Sequence[HiddenKey]],
) -> tuple[dict[str, set[int]], dict[str, set[str]]]:
    """Which rows of a file are whose, by their position, and which values these rows have."""
    import pyarrow.parquet as pq

    from lakewarden.engine.kernel.schema import column_at, find

    rows: dict[str, set[int]] = {}
    values: dict[str, set[str]] = {}
    with quietly_read(file.file_path, _HINT), storage.open(file.file_path) as stream:
        parquet = pq.ParquetFile(stream, pre_buffer=False)
        for column in columns:
            place = find(parquet.schema_arrow, column.field_id)
            if place is None:
                for request, text in _by_partition(table, file, column.field_id, keys):
                    rows.setdefault(request, set()).update(range(file.record_count))
                    values.setdefault(request, set()).add(text)
                continue
            name = parquet.schema_arrow.field(place[0]).name
            start = 0
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=[name], use_threads=False):
                held = column_at(batch, [batch.schema.names.index(name), *place[1:]])
                for row, value in _matches(held, column.values):
                    for request in column.owners[value]:
                        rows.setdefault(request, set()).add(start + row)
                        values.setdefault(request, set()).add(column.texts[value])
                start += batch.num_rows
    return rows, values


def _matches(column: Any, values: Any) -> Iterator[tuple[int, int]]:
    """Which rows hold one of the values, and which one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    held, sought = comparable(getattr(column, "storage", column), values)  # a uuid's storage are its bytes
    which = pc.index_in(held, value_set=sought, skip_nulls=True)
    rows = pc.indices_nonzero(which.is_valid())
    yield from zip(rows.to_pylist(), which.take(rows).to_pylist(), strict=True)


def _by_partition(
    table: Table, file: DataFile, field_id: int, keys: Mapping[str, Sequence[HiddenKey]]
) -> Iterator[tuple[str, str]]:
    """Who has all rows of a file that lacks the key's column, and by which value: its partition holds it instead."""
    for place, field_ in enumerate(table.metadata.specs()[file.spec_id or 0].fields):
        if field_.source_id != field_id or str(field_.transform) != "identity":
            continue
        value = partition_value(file.partition[place])
        for request, some in keys.items():
            for key in some:
                if key.field_id == field_id and value in (KeyValues(key).transformed(field_.transform) or ()):
                    yield request, field_.transform.to_human_string(_type(key.kind), value)


def _type(kind: str) -> Any:
    from pydantic import TypeAdapter
    from pyiceberg.types import IcebergType

    return TypeAdapter(IcebergType).validate_python(kind)
