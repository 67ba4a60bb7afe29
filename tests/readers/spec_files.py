"""One data or delete file against what its manifest says of it, by the Iceberg spec.

The file itself is read by pyarrow; nothing of Lakewarden or PyIceberg is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.features.erasure.independent_rows import local
from tests.readers.spec_values import (
    FLOATING,
    decoded,
    fewest_bytes,
    is_nan,
    lowest_and_highest,
    order,
    plain,
    result_kind,
    transformed,
)

PATH_ID, POSITION_ID = 2147483546, 2147483545
DELETE_KINDS = {PATH_ID: "string", POSITION_ID: "long"}
LINEAGE = {2147483540: "long", 2147483539: "long"}  # a row's id and sequence number, in files of format v3
_CUT = 16  # characters or bytes of a bound, unless a table's properties say otherwise
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class Column:
    """A column that a row has once, with its values in plain form; null where a struct above it is."""

    kind: str
    values: list[Any]


class DataFile:
    """A Parquet file and its entry in a manifest."""

    def __init__(self, entry: dict[str, Any], kinds: dict[int, str]) -> None:
        """`kinds` are the types of all columns that the table has or had."""
        self.entry, self.kinds = entry, kinds
        self.path: str = entry["file_path"]
        self.told = {name: _as_dict(entry.get(name)) for name in _COUNTS}

    @cached_property
    def parquet(self) -> pq.ParquetFile:
        return pq.ParquetFile(local(self.path))

    @cached_property
    def rows(self) -> pa.Table:
        return self.parquet.read()

    @cached_property
    def columns(self) -> dict[int, Column]:
        found = {}
        for field, values in _flattened(self.rows):
            kind = self.kinds[_id(field)]
            found[_id(field)] = Column(kind, [plain(value, _own_scale(field, kind)) for value in values])
        return found

    def faults(self) -> Iterator[str]:
        """Every way in which the entry does not describe the file."""
        yield from self.outer_faults()
        yield from self._unlike("column_sizes", self.told["column_sizes"], dict(self._sizes()))
        for name in _COUNTS[1:]:
            strange = set(self.told[name]) - set(self.columns)
            if strange:
                yield f"{name} of columns that rows do not have once: {sorted(strange)}"
        for id, column in self.columns.items():
            yield from (f"column {id} ({column.kind}): {fault}" for fault in self._column(id, column))

    def outer_faults(self) -> Iterator[str]:
        """Those that have nothing to do with values."""
        footer = self.parquet.metadata
        starts = [_start(footer.row_group(number)) for number in range(footer.num_row_groups)]
        yield from self._unlike("file_size_in_bytes", self.entry["file_size_in_bytes"], local(self.path).stat().st_size)
        yield from self._unlike("record_count", self.entry["record_count"], footer.num_rows)
        if self.entry.get("content") != 1 or self.entry.get("split_offsets"):  # deletes may do without
            yield from self._unlike("split_offsets", self.entry.get("split_offsets"), sorted(starts))
        yield from self._unlike("key_metadata", self.entry.get("key_metadata"), None)
        for place in range(len(self.parquet.schema)):
            yield from self._stored(place)

    def delete_faults(self) -> Iterator[str]:
        """Those of a file of position deletes: counts are not asked for, and paths are not cut."""
        yield from self.outer_faults()
        for id, column in self.columns.items():
            lower, upper = (self.told[name].get(id) for name in ("lower_bounds", "upper_bounds"))
            ends = lowest_and_highest(column.values)
            if lower is not None and upper is not None and ends is not None:
                found = decoded(lower, column.kind), decoded(upper, column.kind)
                if order(found[0]) > order(ends[0]) or order(found[1]) < order(ends[1]):
                    yield f"bounds of column {id} are {found} for {ends}"

    def partition_faults(self, spec: dict[str, Any]) -> Iterator[str]:
        """Partition values that are not what the spec's transforms make of the rows."""
        for field in spec["fields"]:
            source = self.columns.get(field["source-id"])
            kind = self.kinds[field["source-id"]]
            found = plain(self.entry["partition"][field["name"]], result_kind(field["transform"], kind))
            for value in source.values if source else [None]:
                expected = transformed(field["transform"], value, kind)
                if repr(expected) != repr(found):
                    yield f"partition {field['name']} is {found!r}, but a row has {expected!r}"
                    break

    def _unlike(self, name: str, found: Any, expected: Any) -> Iterator[str]:
        if found != expected:
            yield f"{name} is {found}, not {expected}"

    def _sizes(self) -> Iterator[tuple[int, int]]:
        footer = self.parquet.metadata
        for place, id in enumerate(_leaf_ids(self.rows.schema)):
            groups = range(footer.num_row_groups)
            yield id, sum(footer.row_group(number).column(place).total_compressed_size for number in groups)

    def _column(self, id: int, column: Column) -> Iterator[str]:
        values, told = column.values, {name: self.told[name].get(id) for name in _COUNTS}
        yield from self._unlike("value_counts", told["value_counts"], len(values))
        yield from self._unlike("null_value_counts", told["null_value_counts"], values.count(None))
        nans = sum(map(is_nan, values)) if column.kind in FLOATING else None
        yield from self._unlike("nan_value_counts", told["nan_value_counts"], nans)
        yield from self._bounds(column, told["lower_bounds"], told["upper_bounds"])

    def _bounds(self, column: Column, lower: bytes | None, upper: bytes | None) -> Iterator[str]:
        ends, kind = lowest_and_highest(column.values), column.kind
        if ends is None:
            yield from self._unlike("bounds", (lower, upper), (None, None))
            return
        low, high = ends
        if kind == "uuid" and low != high and lower is None and upper is None:
            return  # Java orders them in another way, so that bounds in either order mislead some reader
        cut = _CUT if kind in ("string", "binary") else None
        can_be_raised = cut is None or len(high) <= cut or not set(high[:cut]) <= {"\U0010ffff", 0xFF}
        if lower is None or (upper is None) == can_be_raised:
            yield f"bounds are {lower!r} and {upper!r} for {low!r} to {high!r}"
            return
        lowest, is_cut = decoded(lower, kind), cut is not None and len(high) > cut
        if lowest != (low[:cut] if cut else low) or order(lowest) > order(low):
            yield f"lower bound is {lowest!r} for {low!r}"
        highest = high if upper is None else decoded(upper, kind)
        if (
            order(highest) < order(high)
            or (highest != high and not is_cut)
            or (is_cut and len(highest) > _CUT and upper)
        ):
            yield f"upper bound is {highest!r} for {high!r}"
        if kind.startswith("decimal") and any(
            len(bound) != fewest_bytes(value) for bound, value in ((lower, low), (upper or b"", high))
        ):
            yield "a bound is not as short as can be"

    def _stored(self, place: int) -> Iterator[str]:
        """How the spec has a type stored in Parquet."""
        column = self.parquet.schema.column(place)
        id = list(_leaf_ids(self.rows.schema))[place]
        kind = self.kinds[id]
        found = (column.physical_type, str(column.logical_type.type), column.logical_type.to_json())
        if kind.startswith("decimal"):
            most = {"INT32": 9, "INT64": 18}.get(column.physical_type, 38)
            if column.precision > most or (most == 38 and column.length != _decimal_length(column.precision)):
                yield f"column {id} ({kind}) is stored as {found}"
            return
        physical, logical = _STORED["fixed" if kind.startswith("fixed") else kind]
        wider = {"long": ["INT32"], "double": ["FLOAT"]}.get(kind, [])  # from before it was promoted
        if column.physical_type not in [physical, *wider] or not all(part in found[2] for part in logical):
            yield f"column {id} ({kind}) is stored as {found}"


_INSTANT = ('"isAdjustedToUTC":true', '"timeUnit":"microseconds"')
_LOCAL = ('"isAdjustedToUTC":false', '"timeUnit":"microseconds"')
_STORED: dict[str, tuple[str, tuple[str, ...]]] = {
    "boolean": ("BOOLEAN", ()), "int": ("INT32", ()), "long": ("INT64", ()), "float": ("FLOAT", ()),
    "double": ("DOUBLE", ()), "date": ("INT32", ("Date",)), "time": ("INT64", ("Time", *_LOCAL)),
    "timestamp": ("INT64", ("Timestamp", *_LOCAL)), "timestamptz": ("INT64", ("Timestamp", *_INSTANT)),
    "string": ("BYTE_ARRAY", ("String",)), "uuid": ("FIXED_LEN_BYTE_ARRAY", ("UUID",)),
    "fixed": ("FIXED_LEN_BYTE_ARRAY", ("None",)), "binary": ("BYTE_ARRAY", ("None",)),
}  # fmt: skip


def _as_dict(pairs: Any) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or []}


def _id(field: Any) -> int:
    return int(field.metadata[b"PARQUET:field_id"])


def _own_scale(field: Any, kind: str) -> str:
    return f"decimal(38, {field.type.scale})" if kind.startswith("decimal") else kind


def _start(row_group: Any) -> int:
    first = row_group.column(0)
    return int(first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset)


def _decimal_length(precision: int) -> int:
    return fewest_bytes(10**precision - 1)


def _flattened(rows: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Columns that are no lists, maps or structs, those within structs too."""
    for field in rows.schema:
        yield from _within(field, rows[field.name].to_pylist())


def _within(field: Any, values: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    if pa.types.is_struct(field.type):
        for place in range(field.type.num_fields):
            inner = field.type.field(place)
            yield from _within(inner, [None if value is None else value[inner.name] for value in values])
    elif not _is_list(field.type) and not pa.types.is_map(field.type):
        yield field, values


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _leaf_ids(fields: Any) -> Iterator[int]:
    """Ids of everything that holds values, in the order of the file."""
    for field in fields:
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _leaf_ids(kind.field(place) for place in range(kind.num_fields))
        elif pa.types.is_map(kind):
            yield from _leaf_ids([kind.key_field, kind.item_field])
        elif _is_list(kind):
            yield from _leaf_ids([kind.value_field])
        else:
            yield _id(field)
