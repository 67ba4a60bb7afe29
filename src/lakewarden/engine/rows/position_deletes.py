"""Position deletes that hide rows of requests: which rows a data file has of whom, and the files that name them.

A hide file is for one data file and serves every request that has rows there: a thousand requests leave one file for
each data file, and not a thousand. Its bounds are that data file's path, so that engines open it only where they read
that data file. Its Parquet footer lists the requests it serves, which no engine reads. Whose row is whose is not
stored: it follows from the key column, for as long as a request's values are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import decoding, quietly_read, told
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.engine.rows.hidden_filter import comparable
from lakewarden.engine.rows.key_values import KeyValues, partition_value
from lakewarden.engine.rows.keys import as_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform

    from lakewarden.engine.files.live_files import DeleteFile, LiveFile
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.basics import Stamp
    from lakewarden.records.erasure import HiddenKey

PATH_ID, POSITION_ID = 2147483546, 2147483545  # Iceberg's own field ids, of all such files
_ID = b"PARQUET:field_id"
_HIDES = re.compile(r"/lw-[^/]+-hide-[0-9a-f]+-\d+\.parquet$")
_REQUESTS = b"lakewarden.requests"  # in the footer of a hide file
_FOOTERS_KEPT = 1 << 16
_BATCH_ROWS = 1 << 16
_ROW_GROUP_ROWS = 1 << 17  # each with a path beside it, as long as paths are
_HINT = "Nothing was hidden. Restore it, or roll back to a version without it."


def file_name(stamp: Stamp, token: str, number: int) -> str:
    """The name of a hide file."""
    return f"{stamp.file_prefix}-hide-{token}-{number}.parquet"


def is_hide(path: str) -> bool:
    """Whether a file of deletes hides rows of requests; those that other engines wrote do not."""
    return _HIDES.search(path) is not None


def served_requests(path: str, opened: Callable[[str], Any]) -> frozenset[str]:
    """The requests for which a hide file hides rows, by its footer; none for any other file of deletes."""
    import pyarrow.parquet as pq

    if not is_hide(path):
        return frozenset()
    with _footers_lock:
        if path in _footers:
            return _footers[path]
    with quietly_read(path, _HINT), opened(path) as stream:
        told = (pq.read_metadata(stream).metadata or {}).get(_REQUESTS, b"").decode()
    with _footers_lock:
        while len(_footers) >= _FOOTERS_KEPT:
            _footers.pop(next(iter(_footers)))
        return _footers.setdefault(path, frozenset(told.split(",")) if told else frozenset())


_footers: dict[str, frozenset[str]] = {}  # files never change, and their names are used once
_footers_lock = Lock()


class Owners:
    """Whose rows are whose: the key values of several requests, looked up together."""

    def __init__(self, keys: Mapping[str, Sequence[HiddenKey]]) -> None:
        """`keys` are those of each request."""
        self._keys = keys
        self._of_partitions: dict[int, dict[Any, list[str]]] = {}
        self._lock = Lock()
        owners: dict[tuple[int, str], dict[str, list[str]]] = {}
        for request, some in keys.items():
            for key in some:
                of_value = owners.setdefault((key.field_id, key.kind), {})
                for value in key.values:
                    of_value.setdefault(value, []).append(request)
        self._columns = [
            (field_id, as_arrow(kind, list(found)), list(found.values())) for (field_id, kind), found in owners.items()
        ]

    def positions(self, metadata: TableMetadata, storage: StoredFiles, file: LiveFile) -> dict[str, set[int]]:
        """Where a data file has rows of each request, masked or not; streamed, and only the key columns of it."""
        import pyarrow.parquet as pq

        from lakewarden.engine.kernel.schema import column_at, find

        found: dict[str, set[int]] = {}
        with quietly_read(file.path, _HINT), storage.open(file.path) as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=False)
            for field_id, values, owners in self._columns:
                place = find(parquet.schema_arrow, field_id)
                if place is None:
                    for request in self._by_partition(metadata, file, field_id):
                        found.setdefault(request, set()).update(range(file.rows))
                    continue
                name = parquet.schema_arrow.field(place[0]).name
                start = 0
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=[name], use_threads=False):
                    column = column_at(batch, [batch.schema.names.index(name), *place[1:]])
                    _look(column, values, owners, start, found)
                    start += batch.num_rows
        return found

    def _by_partition(self, metadata: TableMetadata, file: LiveFile, field_id: int) -> list[str]:
        """Who has all rows of a file that lacks the key's column: its partition may tell the value instead."""
        values = [
            (field.transform, partition_value(file.record[place]))
            for place, field in enumerate(metadata.specs()[file.partition[0]].fields)
            if field.source_id == field_id and str(field.transform) == "identity"
        ]
        return [
            request
            for transform, value in values
            for request in self._partition_owners(field_id, transform).get(value, ())
        ]

    def _partition_owners(self, field_id: int, identity: Transform[Any, Any]) -> Mapping[Any, Sequence[str]]:
        """Whose each value of a column is, as partitions have it: made once, and only where a file needs it."""
        with self._lock:
            if field_id not in self._of_partitions:
                found = self._of_partitions[field_id] = {}
                every = ((request, key) for request, keys in self._keys.items() for key in keys)
                for request, key in every:
                    if key.field_id == field_id:
                        for value in KeyValues(key).transformed(identity) or ():
                            found.setdefault(value, []).append(request)
            return self._of_partitions[field_id]


def named_positions(
    storage: StoredFiles, delete: DeleteFile | str, paths: Collection[str] | None = None
) -> dict[str, set[int]]:
    """The rows of some data files, or of all, that deletes name by position; deletes by equality name none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[str, set[int]] = {}
    path = delete if isinstance(delete, str) else delete.path
    if not isinstance(delete, str) and delete.is_equality:
        return found
    if not isinstance(delete, str) and delete.is_vector:
        with quietly_read(path, _HINT), decoding(path):  # of a damaged vector anything can be raised
            return _of_vector(storage.read(path), delete)
    wanted = None if paths is None else pa.array(sorted(paths), pa.string())
    with quietly_read(path, _HINT), storage.open(path) as stream:
        file = pq.ParquetFile(stream, pre_buffer=False)
        for batch in file.iter_batches(_BATCH_ROWS, columns=["file_path", "pos"], use_threads=False):
            _note_named(batch, wanted, found)
    return found


def write(
    io: FileIO,
    path: str,
    positions: Mapping[str, Iterable[int]],
    like: LiveFile | DeleteFile,
    requests: Iterable[str] = (),
) -> AddedFile:
    """Write a file that names rows of data files, all of them in the partition of `like`."""
    import numpy
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    names = sorted(positions, key=str.encode)
    runs = {name: [numpy.fromiter(at, numpy.int64)] for name, at in positions.items()}
    rows = write_rows(io, path, runs, requests)
    file = DataFile.from_args(
        3,  # with room for what manifests of deletes tell: see manifests.py
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=like.record,
        record_count=rows,
        file_size_in_bytes=len(io.new_input(path)),
        lower_bounds={PATH_ID: names[0].encode()},
        upper_bounds={PATH_ID: names[-1].encode()},
        referenced_data_file=names[0] if len(names) == 1 else None,
    )
    file.spec_id = like.partition[0]
    return AddedFile(file, like.partition[0], 0)


def write_rows(io: FileIO, path: str, runs: Mapping[str, Sequence[Any]], requests: Iterable[str] = ()) -> int:
    """Write names of data files with positions, which come in any number of arrays each; answers how many.

    The footer of a hide file lists the requests it serves.
    """
    import pyarrow.parquet as pq

    rows = 0
    with (
        told(path),
        io.new_output(path).create() as stream,
        pq.ParquetWriter(stream, _schema(), compression="zstd", store_schema=False) as writer,
    ):
        for some in _in_order(runs):
            writer.write_table(some)
            rows += some.num_rows
        if served := ",".join(sorted(requests)):
            writer.add_key_value_metadata({_REQUESTS: served.encode()})
    return rows


def _in_order(runs: Mapping[str, Sequence[Any]]) -> Iterator[pa.Table]:
    """What a file of deletes holds: sorted by path and position, as Iceberg asks, and not a row group for every few."""
    import numpy
    import pyarrow as pa

    names: list[pa.Array] = []
    places: list[pa.Array] = []
    schema, count = _schema(), 0
    for name in sorted(runs, key=str.encode):
        at = pa.array(numpy.sort(numpy.concatenate(runs[name])), pa.int64())
        for start in range(0, len(at), _ROW_GROUP_ROWS):
            part = at.slice(start, _ROW_GROUP_ROWS)
            names.append(pa.repeat(name, len(part)))
            places.append(part)
            count += len(part)
            if count >= _ROW_GROUP_ROWS:
                yield pa.table([pa.chunked_array(names), pa.chunked_array(places)], schema=schema)
                names, places, count = [], [], 0
    if count:
        yield pa.table([pa.chunked_array(names), pa.chunked_array(places)], schema=schema)


def _schema() -> pa.Schema:
    import pyarrow as pa

    path = pa.field("file_path", pa.string(), nullable=False, metadata={_ID: str(PATH_ID).encode()})
    position = pa.field("pos", pa.int64(), nullable=False, metadata={_ID: str(POSITION_ID).encode()})
    return pa.schema([path, position])


def _note_named(batch: Any, wanted: Any, found: dict[str, set[int]]) -> None:
    """Note the positions that a run of deletes has for the wanted data files."""
    import pyarrow.compute as pc

    known = batch.column("file_path").unique() if wanted is None else wanted
    which = pc.index_in(batch.column("file_path"), value_set=known)
    for index in pc.unique(which.drop_null()).to_pylist():
        named = batch.column("pos").filter(pc.equal(which, index))
        found.setdefault(known[index].as_py(), set()).update(named.to_pylist())


def _of_vector(content: bytes, delete: DeleteFile) -> dict[str, set[int]]:
    """The rows that a deletion vector masks, of the one data file that it is for."""
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    vectors = deletion_vectors_from_puffin_file(PuffinFile(content))
    return {
        v.referenced_data_file: set(v.to_vector().to_pylist())
        for v in vectors
        if v.referenced_data_file == delete.only_for
    }


def _look(column: Any, values: Any, owners: Sequence[list[str]], start: int, found: dict[str, set[int]]) -> None:
    """Note where a run of rows, beginning at `start`, has one of the values, and for whom."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    held, sought = comparable(getattr(column, "storage", column), values)  # a uuid's storage are its bytes
    which = pc.index_in(held, value_set=sought, skip_nulls=True)
    rows = pc.indices_nonzero(which.is_valid())
    for row, value in zip(rows.to_pylist(), which.take(rows).to_pylist(), strict=True):
        for request in owners[value]:
            found.setdefault(request, set()).add(start + row)
