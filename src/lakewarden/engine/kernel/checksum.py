"""A checksum of rows, column by column: what `verify: full` compares.

The same values in the same order give the same checksum, however they are split into batches and whatever bytes lie
under nulls. Floating point numbers are compared bit by bit, so that NaN equals NaN and -0.0 differs from 0.0.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.engine.kernel.memory import Budget
from lakewarden.engine.kernel.reading import ParquetInput
from lakewarden.engine.kernel.schema import children, is_text_or_bytes
from lakewarden.engine.kernel.storage import TaskStorage

_SIZE = 16


class Checksum:
    """A checksum of all rows passed to `update`."""

    def __init__(self, schema: Any) -> None:
        self._columns = [_Values(field.type) for field in schema]

    def update(self, batch: Any) -> None:
        for column, array in zip(self._columns, batch.columns, strict=True):
            column.update(array)

    def digest(self) -> str:
        together = hashlib.blake2b(digest_size=_SIZE)
        for column in self._columns:
            together.update(column.digest())
        return together.hexdigest()


class _Values:
    """The values of a column, or of one level of a nested column.

    Nulls, lengths, values and nested values are hashed as separate streams, so that batch boundaries do not matter.
    """

    def __init__(self, type_: Any) -> None:
        self._rows = 0
        self._nulls, self._lengths, self._bytes = (hashlib.blake2b(digest_size=_SIZE) for _ in range(3))
        self._within = [_Values(child.type) for child in children(type_)]

    def digest(self) -> bytes:
        parts = [self._nulls.digest(), self._lengths.digest(), self._bytes.digest()]
        parts += [values.digest() for values in self._within]
        return hashlib.blake2b(b"".join([self._rows.to_bytes(8, "little"), *parts]), digest_size=_SIZE).digest()

    def update(self, array: Any) -> None:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        rows = len(array)
        if array.null_count:
            places = pc.indices_nonzero(array.is_null())
            self._nulls.update(_fixed(pc.add(places, pa.scalar(self._rows, pa.uint64()))))
            array = array.drop_null()
        self._rows += rows
        if len(array):
            self._update_valid(array)

    def _update_valid(self, array: Any) -> None:
        type_ = array.type
        if pa.types.is_struct(type_):
            for index, values in enumerate(self._within):
                values.update(array.field(index))
        elif children(type_):
            if pa.types.is_map(type_):
                array = _map_as_list(array)
            self._lengths.update(_fixed(pc.list_value_length(array).cast(pa.int32())))
            entries = array.flatten()
            for index, values in enumerate(self._within):
                values.update(entries.field(index) if pa.types.is_map(type_) else entries)
        elif is_text_or_bytes(type_):
            self._lengths.update(_fixed(pc.binary_length(array).cast(pa.int32())))
            self._bytes.update(_text(array))
        elif pa.types.is_boolean(type_):
            self._bytes.update(_fixed(array.cast(pa.uint8())))
        elif not pa.types.is_null(type_):
            self._bytes.update(_fixed(array))


def _fixed(array: Any) -> memoryview:
    width = array.type.bit_width // 8
    return memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]


def _text(array: Any) -> memoryview:
    if "view" in str(array.type):
        array = array.cast(pa.large_binary())
    _, offsets, content = array.buffers()
    size = 8 if "large" in str(array.type) else 4
    ends = memoryview(offsets)[array.offset * size : (array.offset + len(array) + 1) * size]
    first, last = (int.from_bytes(end, "little") for end in (ends[:size], ends[-size:]))
    return memoryview(content)[first:last] if content is not None else memoryview(b"")


def _map_as_list(array: Any) -> Any:
    entries = pa.list_(pa.struct(children(array.type)))
    return pa.Array.from_buffers(entries, len(array), array.buffers()[:2], offset=array.offset, children=[array.values])


def checksum_of_file(storage: TaskStorage, path: str, budget: Budget) -> str:
    """The checksum of a whole file, read back from storage."""
    with ParquetInput(storage, path, budget) as file:
        checksum = Checksum(file.schema)
        for batch in file.batches(range(len(file.schema)), lambda: budget.row_group):
            checksum.update(batch)
    return checksum.digest()
