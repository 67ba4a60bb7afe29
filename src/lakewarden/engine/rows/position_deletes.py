"""Position deletes that hide the rows of erasure requests: reading and writing the files.

A hide file applies to one data file and serves all requests with rows in it: a thousand requests leave one hide file
per data file, not a thousand. Its bounds are the data file's path, so that engines open it only for that file. Its
Parquet footer lists the requests, which engines ignore. Which row belongs to which request is not stored: it follows
from the key column as long as a request's values are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import decoding, quietly_read, translating
from lakewarden.engine.base.kept import Kept
from lakewarden.engine.files.written_files import AddedFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO

    from lakewarden.engine.files.live_files import DeleteFile, LiveFile
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.basics import Stamp

PATH_ID, POSITION_ID = 2147483546, 2147483545  # Iceberg's reserved field ids
_ID = b"PARQUET:field_id"
_HIDES = re.compile(r"/lw-[^/]+-hide-[0-9a-f]+-\d+\.parquet$")
_REQUESTS = b"lakewarden.requests"  # in the footer of a hide file
_FOOTERS_KEPT = 1 << 16
_BATCH_ROWS = 1 << 16
_ROW_GROUP_ROWS = 1 << 17  # each row has a path
_HINT = "Nothing was hidden. Restore it, or roll back to a version without it."


def file_name(stamp: Stamp, token: str, number: int) -> str:
    """The name of a hide file."""
    return f"{stamp.file_prefix}-hide-{token}-{number}.parquet"


def is_hide(path: str) -> bool:
    """Whether a delete file hides the rows of requests; those of other engines do not."""
    return _HIDES.search(path) is not None


def served_requests(path: str, opened: Callable[[str], Any]) -> frozenset[str]:
    """The requests that a hide file serves, from its footer; none for other delete files."""
    import pyarrow.parquet as pq

    def read() -> frozenset[str]:
        with quietly_read(path, _HINT), opened(path) as stream:
            requests = (pq.read_metadata(stream).metadata or {}).get(_REQUESTS, b"").decode()
        return frozenset(requests.split(",")) if requests else frozenset()

    return _footers.get(path, read) if is_hide(path) else frozenset()


_footers: Kept[frozenset[str]] = Kept(_FOOTERS_KEPT, lambda _: 1)  # files never change, and their names are unique


def named_positions(
    storage: StoredFiles, delete: DeleteFile | str, paths: Collection[str] | None = None
) -> dict[str, set[int]]:
    """The positions in data files, or only in some of them, that position deletes mask; none for equality deletes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[str, set[int]] = {}
    path = delete if isinstance(delete, str) else delete.path
    if not isinstance(delete, str) and delete.is_equality:
        return found
    if not isinstance(delete, str) and delete.is_vector:
        with quietly_read(path, _HINT), decoding(path):  # a damaged vector can raise anything
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
    """Write a position delete file for data files in the partition of `like`."""
    import numpy
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    names = sorted(positions, key=str.encode)
    runs = {name: [numpy.fromiter(at, numpy.int64)] for name, at in positions.items()}
    rows = write_rows(io, path, runs, requests)
    file = DataFile.from_args(
        3,  # format v3 has the fields of delete manifests: see manifests.py
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
    return AddedFile(file, like.partition[0])


def write_rows(io: FileIO, path: str, runs: Mapping[str, Sequence[Any]], requests: Iterable[str] = ()) -> int:
    """Write paths of data files with positions, given as arrays; returns the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    with (
        translating(path),
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
    """The rows of a delete file, sorted by path and position as Iceberg requires, in large row groups."""
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
    """Add the positions in a batch of deletes for the wanted data files."""
    import pyarrow.compute as pc

    known = batch.column("file_path").unique() if wanted is None else wanted
    which = pc.index_in(batch.column("file_path"), value_set=known)
    for index in pc.unique(which.drop_null()).to_pylist():
        named = batch.column("pos").filter(pc.equal(which, index))
        found.setdefault(known[index].as_py(), set()).update(named.to_pylist())


def _of_vector(content: bytes, delete: DeleteFile) -> dict[str, set[int]]:
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    vectors = deletion_vectors_from_puffin_file(PuffinFile(content))
    return {
        v.referenced_data_file: set(v.to_vector().to_pylist())
        for v in vectors
        if v.referenced_data_file == delete.only_for
    }
