"""Whose rows data files hold: for each erasure request, its rows in each file, and which of its values occur.

Only key columns are read, and only of files that a search found. Callers decide what of it may be stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import quietly_read
from lakewarden.engine.rows.hidden_filter import comparable
from lakewarden.engine.rows.key_values import KeyValues, partition_value
from lakewarden.engine.rows.keys import as_arrow

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform
    from pyiceberg.typedef import Record

    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey

_READERS = 4
_BATCH_ROWS = 1 << 16
_HINT = "Restore it, or expire the versions that have it."
_HIDE_HINT = "Nothing was hidden. Restore it, or roll back to a version without it."


@dataclass
class Share:
    """What files hold of one request."""

    rows: dict[str, int] = field(default_factory=dict)
    """Rows per file. A row with several of the values counts once."""
    values: set[str] = field(default_factory=set, repr=False)
    """The values that occur, as canonical texts."""


@dataclass(frozen=True)
class _Column:
    """The values of all requests in one key column, and the requests that each belongs to."""

    field_id: int
    texts: Sequence[str] = field(repr=False)
    owners: Sequence[Sequence[str]]
    values: Any = field(repr=False)


@dataclass(frozen=True)
class _File:
    path: str
    rows: int
    spec_id: int
    partition: Record = field(repr=False)


class Owners:
    """Attributes rows to requests: the key values of several requests, looked up together."""

    def __init__(self, keys: Mapping[str, Sequence[HiddenKey]]) -> None:
        self._keys = keys
        self._columns = list(_columns(keys))
        self._of_partitions: dict[int, dict[Any, list[tuple[str, str]]]] = {}
        self._lock = Lock()

    def positions(self, metadata: TableMetadata, storage: StoredFiles, file: LiveFile) -> dict[str, set[int]]:
        """The positions of each request's rows in a data file, whether or not deletes mask them."""
        found = _File(file.path, file.rows, file.partition[0], file.record)
        return self.look(metadata, storage, found, _HIDE_HINT)[0]

    def look(
        self, metadata: TableMetadata, storage: StoredFiles, file: _File, hint: str = _HINT
    ) -> tuple[dict[str, set[int]], dict[str, set[str]]]:
        """The positions of each request's rows in a file, and the values in them. Streams the key columns only."""
        import pyarrow.parquet as pq

        from lakewarden.engine.kernel.schema import column_at, find

        rows: dict[str, set[int]] = {}
        values: dict[str, set[str]] = {}
        with quietly_read(file.path, hint), storage.open(file.path) as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=False)
            for column in self._columns:
                place = find(parquet.schema_arrow, column.field_id)
                if place is None:
                    for request, text in self._by_partition(metadata, file, column.field_id):
                        rows.setdefault(request, set()).update(range(file.rows))
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

    def _by_partition(self, metadata: TableMetadata, file: _File, field_id: int) -> Iterator[tuple[str, str]]:
        """Which requests own all rows of a file that lacks the key column, and by which value: its partition has it."""
        for place, part in enumerate(metadata.specs()[file.spec_id].fields):
            if part.source_id == field_id and str(part.transform) == "identity":
                owners = self._partition_owners(field_id, part.transform)
                yield from owners.get(partition_value(file.partition[place]), ())

    def _partition_owners(
        self, field_id: int, identity: Transform[Any, Any]
    ) -> Mapping[Any, Sequence[tuple[str, str]]]:
        """The requests that each partition value belongs to, with its text; built once, if a file needs it."""
        with self._lock:
            if field_id not in self._of_partitions:
                found = self._of_partitions[field_id] = {}
                for request, keys in self._keys.items():
                    for key in (KeyValues(key) for key in keys if key.field_id == field_id):
                        for value in key.transformed(identity) or ():
                            found.setdefault(value, []).append((request, key.spell(identity, value)))
            return self._of_partitions[field_id]


def shares(
    table: Table, keys: Mapping[str, Sequence[HiddenKey]], files: Sequence[DataFile], storage: StoredFiles
) -> dict[str, Share]:
    """What data files hold of each request, whether or not deletes mask it; requests without rows are left out."""
    owners = Owners(keys)
    wanted = [_File(file.file_path, file.record_count, file.spec_id or 0, file.partition) for file in files]
    found: dict[str, Share] = {}
    with ThreadPoolExecutor(_READERS, thread_name_prefix="shares") as readers:
        looked = readers.map(lambda file: owners.look(table.metadata, storage, file), wanted)
        for file, (rows, values) in zip(wanted, looked, strict=True):
            for request, places in rows.items():
                share = found.setdefault(request, Share())
                share.rows[file.path] = len(places)
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


def _matches(column: Any, values: Any) -> Iterator[tuple[int, int]]:
    """The rows that hold one of the values, each with the value's index."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    held, sought = comparable(getattr(column, "storage", column), values)  # the storage of a UUID is its bytes
    which = pc.index_in(held, value_set=sought, skip_nulls=True)
    rows = pc.indices_nonzero(which.is_valid())
    yield from zip(rows.to_pylist(), which.take(rows).to_pylist(), strict=True)
