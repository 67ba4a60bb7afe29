"""Schemas by field id: finding fields, and projecting a file's columns onto the target schema.

Columns are identified by field id alone, at every level: a renamed column takes its new name, an added one is null, and
one that was dropped and added again under the same name is null too. Types follow Iceberg's promotions. Selecting rows
is up to callers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.engine.kernel.messages import RewriteFault

_FIELD_ID = b"PARQUET:field_id"
Step = Callable[[Any], Any] | None  # converts an array; None leaves it unchanged
is_ = pa.types
_NONE: Mapping[Any, Any] = {}


@dataclass(frozen=True)
class Leaf:
    """A column as Parquet counts them."""

    path: str
    field_id: int | None
    type: Any

    @property
    def key(self) -> int | str:
        """What identifies it: its id, or its path if it has none."""
        return self.path if self.field_id is None else self.field_id


def field_id(field: Any) -> int | None:
    found = (field.metadata or {}).get(_FIELD_ID)
    return None if found is None or int(found) < 0 else int(found)


def children(type_: Any) -> list[Any]:
    """The fields of a nested type; none for others."""
    if is_.is_struct(type_):
        return list(type_)
    if is_.is_map(type_):
        return [type_.key_field, type_.item_field]
    if _is_list(type_):
        return [type_.value_field]
    return []


def leaves(schema: Any) -> list[Leaf]:
    return [leaf for field in schema for leaf in _leaves(field, field.name)]


def _leaves(field: Any, path: str) -> Iterator[Leaf]:
    if is_.is_struct(field.type):
        for child in field.type:
            yield from _leaves(child, f"{path}.{child.name}")
    elif is_.is_map(field.type):
        yield from _leaves(field.type.key_field, f"{path}.key_value.key")
        yield from _leaves(field.type.item_field, f"{path}.key_value.value")
    elif _is_list(field.type):
        yield from _leaves(field.type.value_field, f"{path}.list.element")
    else:
        yield Leaf(path, field_id(field), field.type)


def require_field_ids(schema: Any) -> None:
    """Refuse a file with a field that has no id: matching by name could put values into the wrong column."""

    def without(fields: Iterator[Any], above: str) -> Iterator[str]:
        for field in fields:
            if field_id(field) is None:
                yield above + field.name
            yield from without(iter(children(field.type)), f"{above}{field.name}.")

    for name in without(iter(schema), ""):
        raise RewriteFault("no-field-ids", f"column {name} has no field id")


def find(schema: Any, wanted: int) -> list[int] | None:
    """The path to a field: its column's index, then its index in each struct above it; None if absent."""

    def within(fields: list[Any]) -> list[int] | None:
        for index, field in enumerate(fields):
            below = [] if field_id(field) == wanted else within(children(field.type))
            if below and not is_.is_struct(field.type):
                raise RewriteFault("schema", f"field id {wanted} is within {field.name}, which is a list or a map")
            if below is not None:
                return [index, *below]
        return None

    return within(list(schema))


def column_at(rows: Any, place: Sequence[int]) -> Any:
    """The column of a batch or table at a path from `find`; null where a struct above it is null."""
    column = rows.column(place[0])
    for index in place[1:]:
        column = pc.struct_field(column, [index])
    return column


def nan_counts(rows: Any, schema: Any | None = None) -> dict[int, int]:
    """The number of NaN values of each floating point column, by field id, including columns within structs.

    Columns within lists and maps are not counted, because manifests have no counts for them. Pass `schema` if the field
    ids are in another schema with the same columns.
    """
    return {
        identity: pc.sum(pc.is_nan(column_at(rows, place))).as_py() or 0
        for identity, place in _floating(rows.schema if schema is None else schema, [])
    }


def _floating(fields: Any, above: list[int]) -> Iterator[tuple[int, list[int]]]:
    """The field id and path of every floating point field that occurs once per row."""
    for index, field in enumerate(fields):
        identity = field_id(field)
        if is_.is_struct(field.type):
            yield from _floating(field.type, [*above, index])
        elif is_.is_floating(field.type) and identity is not None:
            yield identity, [*above, index]


def own_target(schema: Any, instants: Container[str]) -> Any:
    """A file's own schema as a target, with dictionaries decoded: they would keep values that no row holds any more.

    `instants` are columns of the legacy INT96 type, which does not state that its timestamps are in UTC.
    """
    kept = {key: value for key, value in (schema.metadata or {}).items() if key != b"pandas"}
    moment = pa.timestamp("us", "UTC")
    types = [moment if field.name in instants else _dissolved(field.type) for field in schema]
    fields = [field.with_type(type_) for field, type_ in zip(schema, types, strict=True)]
    return pa.schema(fields, metadata=kept or None)


def _dissolved(type_: Any) -> Any:
    if is_.is_dictionary(type_):
        return type_.value_type
    inner = [child.with_type(_dissolved(child.type)) for child in children(type_)]
    if is_.is_struct(type_):
        return pa.struct(inner)
    if is_.is_map(type_):
        return pa.map_(*inner)
    if _is_list(type_):
        return pa.large_list(*inner) if is_.is_large_list(type_) else pa.list_(*inner)
    return type_


class Projection:
    """Converts batches of a file's schema to the target schema."""

    def __init__(
        self,
        source: Any,
        target: Any,
        by_name: bool = False,
        moved: Mapping[Any, int] = _NONE,
        constants: Mapping[Any, str] = _NONE,
    ) -> None:
        """Columns match by id, or `by_name` if the target was derived from the source, which may have no ids.

        `moved` has the ids of columns that the source has under another id; `constants` those with one text.
        """
        self._target = target
        identify = _name if by_name else field_id
        at = {identify(field): index for index, field in enumerate(source)}
        self._columns: list[tuple[int | None, Step]] = []
        for field in target:
            id = identify(field)
            index = at.get(moved.get(id, id)) if id not in constants else None
            if id in constants:
                step = _constant(field, constants[id])
            else:
                step = _absent(field) if index is None else _step(source.field(index), field, identify)
            self._columns.append((index, step))
        absent = [
            pa.nulls(64, field.type).nbytes
            for field, (index, _) in zip(target, self._columns, strict=True)
            if index is None
        ]
        self.added_width = sum(absent) / 64  # bytes per row for columns that the file lacks
        self._as_it_is = source.equals(target) and self._columns == [(index, None) for index in range(len(target))]

    @property
    def needed(self) -> set[int]:
        """The indexes of the file's columns that it reads."""
        return {index for index, _ in self._columns if index is not None}

    def apply(self, batch: Any) -> Any:
        if self._as_it_is:
            return batch
        arrays = []
        for field, (index, step) in zip(self._target, self._columns, strict=True):
            array = pa.nulls(batch.num_rows, field.type) if index is None else batch.column(index)
            array = array if step is None else step(array)
            if not field.nullable and array.null_count:
                raise RewriteFault("schema", f"column {field.name} is required and has nulls")
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def _name(field: Any) -> str:
    return str(field.name)


def _absent(field: Any) -> Step:
    if not field.nullable:
        raise RewriteFault("schema", f"has no column {field.name}, which is required")
    return None


def _constant(field: Any, text: str) -> Step:
    return lambda array: pa.repeat(pa.scalar(text, field.type), len(array))


def _step(source: Any, target: Any, identify: Callable[[Any], Any]) -> Step:
    before, after = source.type, target.type
    if is_.is_struct(before) and is_.is_struct(after):
        return _struct_step(before, after, identify)
    if is_.is_map(before) and is_.is_map(after):
        entries = _struct_step(_entries(before), _entries(after), identify)
        return _list_step(before, after, entries)
    if _is_list(before) and _is_list(after):
        return _list_step(before, after, _step(before.value_field, after.value_field, identify))
    if before == after:
        return None
    if not _may_become(_storage(before), _storage(after)):
        raise RewriteFault("schema", f"column {source.name} is {before}, which cannot be read as {after}")
    return lambda array: converted(array, after, source.name)


def _struct_step(before: Any, after: Any, identify: Callable[[Any], Any]) -> Step:
    at = {identify(child): index for index, child in enumerate(before)}
    picked: list[tuple[Any, int | None, Step]] = []
    for child in after:
        index = at.get(identify(child))
        step = _absent(child) if index is None else _step(before.field(index), child, identify)
        picked.append((child.type, index, step))
    in_place = [(index, step) for _, index, step in picked] == [(index, None) for index in range(len(list(before)))]
    if in_place and before == after:
        return None

    def project(array: Any) -> Any:
        whole = pa.concat_arrays([array]) if array.offset else array  # the validity bits must be aligned
        inner = []
        for type_, index, step in picked:
            child = pa.nulls(len(whole), type_) if index is None else whole.field(index)
            inner.append(child if step is None or index is None else step(child))
        return pa.Array.from_buffers(after, len(whole), whole.buffers()[:1], children=inner)

    return project


def _list_step(before: Any, after: Any, element: Step) -> Step:
    """Lists and maps: keep the offsets and project all values they point into."""
    if element is None and before == after:
        return None

    def project(array: Any) -> Any:
        if is_.is_large_list(array.type) and not is_.is_large_list(after):
            array = array.cast(pa.list_(before.value_field))
        inner = array.values if element is None else element(array.values)
        return pa.Array.from_buffers(after, len(array), array.buffers()[:2], offset=array.offset, children=[inner])

    return project


def converted(array: Any, type_: Any, column: str) -> Any:
    """A flat array cast to another type, dictionaries decoded."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if is_.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        array = array if array.type == _storage(type_) else array.cast(_storage(type_))
    except pa.ArrowException:  # its message would quote a value
        raise RewriteFault("schema", f"column {column} holds a value that is not of type {type_}") from None
    return pa.ExtensionArray.from_storage(type_, array) if isinstance(type_, pa.ExtensionType) else array


def _may_become(before: Any, after: Any) -> bool:
    """Iceberg's promotions, plus types that are one to Iceberg but several to Arrow."""
    if before == after:
        return True
    if is_.is_dictionary(before):
        return _may_become(before.value_type, after)
    if is_.is_integer(before) and is_.is_integer(after):
        return bool(before.bit_width < after.bit_width)
    if is_.is_decimal(before) and is_.is_decimal(after):
        return bool(before.scale == after.scale and before.precision <= after.precision)
    pairs = (
        (is_.is_floating, is_.is_float64),
        (is_.is_timestamp, is_.is_timestamp),
        (is_.is_time, is_.is_time64),
        (is_text_or_bytes, is_text_or_bytes),
        (is_.is_null, lambda _: True),
    )
    return any(of_before(before) and of_after(after) for of_before, of_after in pairs)


def is_text_or_bytes(type_: Any) -> bool:
    return str(type_) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def _is_list(type_: Any) -> bool:
    return bool(is_.is_list(type_) or is_.is_large_list(type_))


def _storage(type_: Any) -> Any:
    return type_.storage_type if isinstance(type_, pa.ExtensionType) else type_


def _entries(type_: Any) -> Any:
    return pa.struct([type_.key_field, type_.item_field])
