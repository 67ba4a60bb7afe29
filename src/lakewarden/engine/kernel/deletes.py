"""Which rows of a group are left out: those masked by position deletes, and those dropped by value.

Masked rows take one bit each, however many delete files there are. A delete file is read once for the whole group, and
only if it may name the group's files. Paths are compared exactly as stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.engine.kernel.messages import Drop, Input, RewriteFault
from lakewarden.engine.kernel.schema import column_at, converted, find
from lakewarden.engine.kernel.storage import TaskStorage, fault

_BATCH_ROWS = 1 << 16
_PUFFIN = b"PFA1"
ReadVector = Callable[[Any, int, str], Any]
"""Reads the positions that a deletion vector has for a data file, from an open Puffin file of some size."""
_PENDING_POSITIONS = 1 << 18
_WINDOW_ROWS = 1 << 17
_MANY_VALUES = 1 << 13


class Masks:
    """The masked rows of each input file."""

    def __init__(self, rows: dict[str, int]) -> None:
        """`rows` is the row count of each input."""
        self._rows = rows
        self._windows: dict[tuple[str, int], Any] = {}  # bits per path and window, if any row is masked
        self._pending: dict[str, list[Any]] = {}
        self._count = 0

    def masked(self, path: str, start: int, rows: int) -> Any | None:
        """One bit for each row of a range, set where the row is masked; None if none is."""
        first, last = start // _WINDOW_ROWS, (start + rows - 1) // _WINDOW_ROWS
        if not any((path, number) in self._windows for number in range(first, last + 1)):
            return None
        bits = pa.concat_arrays([self._window(path, number) for number in range(first, last + 1)])
        found = bits.slice(start - first * _WINDOW_ROWS, rows)
        return found if found.true_count else None

    def add(self, path: str, positions: Any) -> None:
        self._pending.setdefault(path, []).append(positions)
        self._count += len(positions)
        if self._count >= _PENDING_POSITIONS:
            self.settle()

    def settle(self) -> None:
        """Turn positions into bits, which take less memory. Positions beyond the end of a file mask nothing."""
        for path, pending in self._pending.items():
            positions = pa.concat_arrays(pending)
            positions = positions.filter(pc.less(positions, self._rows[path])).sort()
            begin = 0
            while begin < len(positions):
                number = positions[begin].as_py() // _WINDOW_ROWS
                start = number * _WINDOW_ROWS
                end = bisect_left(positions, start + _WINDOW_ROWS, lo=begin, key=lambda position: position.as_py())
                within = pc.subtract(positions.slice(begin, end - begin), start)
                bits = pc.inverse_permutation(within, max_index=_WINDOW_ROWS - 1).is_valid()
                self._windows[path, number] = pc.or_(self._window(path, number), bits)
                begin = end
        self._pending, self._count = {}, 0

    def _window(self, path: str, number: int) -> Any:
        found = self._windows.get((path, number))
        return pa.repeat(False, _WINDOW_ROWS) if found is None else found


def read_masks(storage: TaskStorage, inputs: Sequence[Input], read_vector: ReadVector | None = None) -> Masks:
    """Read every delete file of the inputs, for the inputs that list it."""
    masks = Masks({input_.path: input_.rows for input_ in inputs})
    named: dict[str, list[str]] = {}
    for input_ in inputs:
        for delete in input_.deletes:
            named.setdefault(delete, []).append(input_.path)
    for delete, paths in named.items():
        try:
            for path, positions in _positions(storage, delete, paths, read_vector):
                masks.add(path, positions)
        except Exception as error:
            raise fault(error, delete) from error
    masks.settle()
    return masks


def _positions(
    storage: TaskStorage, delete: str, paths: list[str], read_vector: ReadVector | None
) -> Iterator[tuple[str, Any]]:
    wanted = pa.array(paths, pa.string())
    with storage.open(delete) as source:
        if read_vector is not None and source.read(4) == _PUFFIN:
            for path in paths:
                positions = read_vector(source, source.size(), path)
                if positions is not None:
                    yield path, pa.array(positions)
            return
        source.seek(0)
        metadata = pq.read_metadata(source)
        columns = ["file_path", "pos"]
        if not set(columns) <= set(metadata.schema.names):
            raise RewriteFault("schema", "is not a position delete file: it lacks file_path or pos", delete)
        file = pq.ParquetFile(
            source, metadata=metadata, pre_buffer=False, buffer_size=1 << 18, read_dictionary=columns[:1]
        )
        groups = [number for number in range(metadata.num_row_groups) if _may_hold(metadata.row_group(number), paths)]
        if not groups:
            return
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
            which = pc.index_in(batch.column("file_path"), value_set=wanted)
            for index in pc.unique(which.drop_null()).to_pylist():
                yield paths[index], batch.column("pos").filter(pc.equal(which, index))


def _may_hold(row_group: Any, paths: list[str]) -> bool:
    """Whether a row group's bounds allow for one of the paths. Paths are ordered by their bytes."""
    for index in range(row_group.num_columns):
        chunk = row_group.column(index)
        if chunk.path_in_schema == "file_path" and chunk.is_stats_set and chunk.statistics.has_min_max:
            least, greatest = _bytes(chunk.statistics.min), _bytes(chunk.statistics.max)
            return any(least <= path.encode() <= greatest for path in paths)
    return True


def _bytes(bound: str | bytes) -> bytes:
    return bound.encode() if isinstance(bound, str) else bound


class Wanted:
    """The unpacked values of one drop. Immutable, so that groups can share them."""

    def __init__(self, drop: Drop) -> None:
        self.field_id = drop.field_id
        values = pa.ipc.open_stream(drop.values).read_all().column(0).combine_chunks().drop_null()
        self._values = values.storage if isinstance(values, pa.ExtensionArray) else values
        # Arrow would rebuild its hash table for every batch
        self._known = frozenset(self._values.to_pylist()) if len(self._values) > _MANY_VALUES else None

    def among(self, array: Any) -> Any:
        """A bit for each row, set if it holds one of the values."""
        array = converted(array, self._values.type, f"with field id {self.field_id}")
        if self._known is None:
            return pc.is_in(array, value_set=self._values, skip_nulls=True)
        encoded = array.dictionary_encode()
        words = pa.array([word in self._known for word in encoded.dictionary.to_pylist()], pa.bool_())
        return words.take(encoded.indices).fill_null(False)


class Droppings:
    """Finds the rows to drop, whatever the file's schema: a row goes if any of the drops names it."""

    def __init__(self, drops: Sequence[Wanted]) -> None:
        self._drops = drops
        self._found: list[tuple[Wanted, list[int]]] = []

    def needs(self, schema: Any) -> set[int]:
        """The columns to look at. A file older than a column lacks it, and every value of it is null there."""
        return {path[0] for _, path in self._find(schema)}

    def look_at(self, schema: Any) -> None:
        """Set the schema of the batches to come."""
        self._found = self._find(schema)

    def dropped(self, batch: Any) -> Any | None:
        """A bit for each row, set if it is to be dropped; None if no column of the batch can tell."""
        bits = [wanted.among(column_at(batch, path)) for wanted, path in self._found]
        return reduce(pc.or_, bits) if bits else None

    def _find(self, schema: Any) -> list[tuple[Wanted, list[int]]]:
        found = [(wanted, find(schema, wanted.field_id)) for wanted in self._drops]
        return [(wanted, path) for wanted, path in found if path is not None]
