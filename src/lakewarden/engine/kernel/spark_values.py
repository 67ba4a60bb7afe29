"""Rows that were read from files as Spark has them: Arrow's types for a DataFrame's columns.

A UUID is a text in Spark, and bytes of a fixed length are bytes. Which rows these are is up to callers.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa

is_ = pa.types


def as_spark_rows(batch: Any, schema: Any) -> Any:
    """A batch with the types of a schema that has the same columns in the same order."""
    columns = [_as_spark(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_spark(array: Any, wanted: Any) -> Any:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == wanted:
        return array
    if is_.is_struct(wanted):
        return _struct(array, wanted)
    if is_.is_map(wanted):
        return _with_values(array, wanted, _struct(array.values, pa.struct([wanted.key_field, wanted.item_field])))
    if is_.is_list(wanted):
        return _with_values(array, wanted, _as_spark(array.values, wanted.value_type))
    if is_.is_fixed_size_binary(array.type) and is_.is_string(wanted):
        return pa.array([None if value is None else str(UUID(bytes=value)) for value in array.to_pylist()], wanted)
    return array.cast(wanted)


def _struct(array: Any, wanted: Any) -> Any:
    whole = pa.concat_arrays([array]) if array.offset else array  # the validity bits must be aligned
    inner = [_as_spark(whole.field(place), field.type) for place, field in enumerate(wanted)]
    return pa.Array.from_buffers(wanted, len(whole), whole.buffers()[:1], children=inner)


def _with_values(array: Any, wanted: Any, values: Any) -> Any:
    """A list or map with the same offsets into other values."""
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[values])
