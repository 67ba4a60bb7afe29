"""Column metrics for a manifest entry, from a new file's footer: counts, sizes and bounds.

Values are used as Parquet stores them, so that years outside Python's range are no problem. A bound covers the whole
file: if one row group has values but no statistics, as Parquet omits very long ones, the file gets no bound, because a
bound of the other row groups would make readers skip rows.

Bounds exclude NaN, and footers do not count it: the writer of the file does. Readers take bounds without a NaN count to
mean that no value is NaN, and skip or delete rows accordingly. So without a count there are no bounds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

_DEFAULT, _COLUMN = "write.metadata.metrics.default", "write.metadata.metrics.column."
_MOST_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"
_USUAL = "16"
_PACKED = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_LAST, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


def metrics_of(table: TableMetadata, footer: Any, nans: Mapping[int, int]) -> dict[str, Any]:
    """The fields of a manifest entry that describe a file's columns; `nans` are its NaN counts by field id."""
    from pyiceberg.types import DoubleType, FloatType

    from lakewarden.engine.kernel.schema import leaves

    types = _types(table)
    ids = [leaf.field_id for leaf in leaves(footer.schema.to_arrow_schema())]
    modes = metrics_modes(table)
    metrics: dict[str, Any] = {
        "record_count": footer.num_rows,
        "column_sizes": {},
        "value_counts": {},
        "null_value_counts": {},
        "nan_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
        "split_offsets": sorted(_start(footer.row_group(number)) for number in range(footer.num_row_groups)),
    }
    for place, field_id in enumerate(ids):
        if field_id is None or field_id not in types:
            continue
        chunks = [footer.row_group(number).column(place) for number in range(footer.num_row_groups)]
        metrics["column_sizes"][field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        mode = modes.get(field_id, _USUAL)  # dropped columns: earlier versions still have them
        if mode == "none" or footer.schema.column(place).max_repetition_level:  # list elements are not rows
            continue
        metrics["value_counts"][field_id] = sum(chunk.num_values for chunk in chunks)
        if all(chunk.is_stats_set and chunk.statistics.has_null_count for chunk in chunks):
            metrics["null_value_counts"][field_id] = sum(chunk.statistics.null_count for chunk in chunks)
        is_floating = isinstance(types[field_id], FloatType | DoubleType)
        if is_floating and field_id in nans:
            metrics["nan_value_counts"][field_id] = nans[field_id]
        if mode != "counts" and (field_id in nans or not is_floating):
            lower, upper = _bounds(types[field_id], chunks, mode)
            metrics["lower_bounds"] |= {field_id: lower} if lower is not None else {}
            metrics["upper_bounds"] |= {field_id: upper} if upper is not None else {}
    return metrics


def _types(table: TableMetadata) -> dict[int, IcebergType]:
    newest_last = [*table.schemas, table.schema()]
    return {id_: schema.find_type(id_) for schema in newest_last for id_ in schema.field_ids}


def metrics_modes(table: TableMetadata) -> dict[int, str]:
    """The metrics mode of each column: `none`, `counts`, `full`, or the length that bounds are truncated to."""
    properties, schema = table.properties, table.schema()
    default = _mode(properties.get(_DEFAULT, ""))
    names = dict(_leaf_columns(schema))
    order = next((order for order in table.sort_orders if order.order_id == table.default_sort_order_id), None)
    sorted_by = {field.source_id for field in order.fields} if order else set()
    most = properties.get(_MOST_INFERRED, "")
    inferred = int(most) if most.isascii() and most.isdigit() else 100
    beyond = set(list(names)[inferred:]) - sorted_by if _DEFAULT not in properties else set()
    return {
        field_id: _mode(properties[_COLUMN + name])
        if _COLUMN + name in properties
        else ("none" if field_id in beyond else default)
        for field_id, name in names.items()
    }


def _leaf_columns(schema: Schema) -> Iterator[tuple[int, str]]:
    """The leaf columns with their full names, in schema order."""

    from pyiceberg.types import ListType, MapType, StructType

    def within(field: NestedField) -> Iterator[int]:
        kind = field.field_type
        fields: list[NestedField] = []
        if isinstance(kind, StructType):
            fields = list(kind.fields)
        elif isinstance(kind, ListType):
            fields = [kind.element_field]
        elif isinstance(kind, MapType):
            fields = [kind.key_field, kind.value_field]
        else:
            yield field.field_id
        for inner in fields:
            yield from within(inner)

    for column in schema.fields:
        for field_id in within(column):
            yield field_id, schema.find_column_name(field_id) or ""


def _mode(text: str) -> str:
    """A metrics mode in this module's form; an invalid one counts as unset."""
    text = text.strip().lower()
    if text in ("none", "counts", "full"):
        return text
    length = text.removeprefix("truncate(").removesuffix(")").strip()
    return length if text.startswith("truncate(") and length.isascii() and length.isdigit() and int(length) else _USUAL


def _bounds(kind: IcebergType, chunks: list[Any], mode: str) -> tuple[bytes | None, bytes | None]:
    from pyiceberg.types import BinaryType, DecimalType, StringType, UUIDType

    found = [chunk.statistics for chunk in chunks if chunk.is_stats_set and chunk.statistics.has_min_max]
    if not found or any(_hides_values(chunk) for chunk in chunks):
        return None, None
    values = [(one.min_raw, one.max_raw) for one in found]
    if isinstance(kind, DecimalType):
        unscaled = [(_unscaled(low), _unscaled(high)) for low, high in values]
        return _number(min(low for low, _ in unscaled)), _number(max(high for _, high in unscaled))
    lowest, highest = min(low for low, _ in values), max(high for _, high in values)
    if isinstance(kind, UUIDType) and lowest != highest:
        return None, None  # Java compares their halves as signed numbers, and would skip rows by bounds in this order
    if isinstance(lowest, bytes):
        length = int(mode) if mode.isdigit() else None
        if isinstance(kind, StringType) and length is not None:
            return _cut_text(lowest, length), _raised_text(highest, length)
        if isinstance(kind, BinaryType) and length is not None:
            return lowest[:length], _raised_bytes(highest, length)
        return lowest, highest
    packed = _PACKED[chunks[0].physical_type]
    return struct.pack(packed, lowest), struct.pack(packed, highest)


def _hides_values(chunk: Any) -> bool:
    """Whether a row group has values that its statistics leave out; for floating point columns, only NaN."""
    if chunk.physical_type in ("FLOAT", "DOUBLE") or chunk.num_values == 0:
        return False
    metrics = chunk.statistics if chunk.is_stats_set else None
    is_empty = metrics is not None and metrics.has_null_count and metrics.null_count == chunk.num_values
    return not is_empty and (metrics is None or not metrics.has_min_max)


def _unscaled(stored: int | bytes) -> int:
    return int.from_bytes(stored, "big", signed=True) if isinstance(stored, bytes) else stored


def _number(unscaled: int) -> bytes:
    """The shortest big-endian encoding."""
    length = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
    return unscaled.to_bytes(length, "big", signed=True)


def _cut_text(value: bytes, length: int) -> bytes:
    return value.decode()[:length].encode()


def _raised_text(value: bytes, length: int) -> bytes | None:
    """An upper bound for all texts with the same beginning; None if no character can be incremented."""
    text = value.decode()
    if len(text) <= length:
        return value
    kept = text[:length]
    for place in range(length - 1, -1, -1):
        following = ord(kept[place]) + 1
        following = _SURROGATES.stop if following in _SURROGATES else following
        if following <= _LAST:
            return (kept[:place] + chr(following)).encode()
    return None


def _raised_bytes(value: bytes, length: int) -> bytes | None:
    if len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _start(row_group: Any) -> int:
    first = row_group.column(0)
    return int(min(first.dictionary_page_offset or first.data_page_offset, first.data_page_offset))
