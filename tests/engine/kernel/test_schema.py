"""Projection by field id, against a model that goes value by value."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.kernel.messages import RewriteFault
from lakewarden.engine.kernel.schema import Projection, field_id, find, leaves, require_field_ids
from tests.engine.kernel_files import field, numbered

LEAVES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.string(): st.text(max_size=5),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.decimals(Decimal("-9999999.99"), Decimal("9999999.99"), places=2),
}
PROMOTED = {pa.int32(): pa.int64(), pa.float32(): pa.float64(), pa.decimal128(9, 2): pa.decimal128(20, 2)}


@st.composite
def types(draw: st.DrawFn, depth: int) -> Any:
    kind = draw(st.sampled_from(["leaf", "struct", "list", "map"] if depth else ["leaf"]))
    if kind == "struct":
        inner = draw(st.lists(types(depth - 1), min_size=1, max_size=3))
        return pa.struct([pa.field(f"f{number}", type_) for number, type_ in enumerate(inner)])
    if kind == "list":
        return pa.list_(pa.field("element", draw(types(depth - 1))))
    if kind == "map":
        return pa.map_(pa.string(), draw(types(depth - 1)))
    return draw(st.sampled_from(list(LEAVES)))


def values(type_: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        inner: st.SearchStrategy[Any] = st.fixed_dictionaries({child.name: values(child.type) for child in type_})
    elif pa.types.is_map(type_):
        inner = st.dictionaries(st.text(max_size=2), values(type_.item_type), max_size=3).map(lambda d: list(d.items()))
    elif pa.types.is_list(type_):
        inner = st.lists(values(type_.value_type), max_size=3)
    else:
        inner = LEAVES[type_]
    return st.none() | inner


class Evolution:
    """Changes a schema as ALTER TABLE would: renames, drops, adds, moves and promotes, at every level."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._new = 1000

    def fields(self, before: list[Any]) -> list[Any]:
        after = [self._field(child) for child in before if self._draw(st.integers(0, 3))]
        for child in before:
            if not self._draw(st.integers(0, 3)):  # added, perhaps under a name that was dropped
                self._new += 1
                taken = {other.name for other in after}
                name = f"new{self._new}" if child.name in taken else child.name
                after.append(field(name, child.type, self._new))
        after = after or [field("only", pa.int32(), self._new + 5000)]
        return list(self._draw(st.permutations(after)))

    def _field(self, before: Any) -> Any:
        renamed = f"{before.name}_{self._draw(st.sampled_from('ab'))}" if self._draw(st.booleans()) else before.name
        return before.with_name(renamed).with_type(self._type(before.type))

    def _type(self, before: Any) -> Any:
        if pa.types.is_struct(before):
            return pa.struct(self.fields(list(before)))
        if pa.types.is_map(before):
            return pa.map_(before.key_field, before.item_field.with_type(self._type(before.item_type)))
        if pa.types.is_list(before):
            return pa.list_(before.value_field.with_type(self._type(before.value_type)))
        return self._draw(st.sampled_from([before, PROMOTED.get(before, before)]))


def model(value: Any, before: Any, after: Any) -> Any:
    """One value, as the target has it."""
    if value is None:
        return None
    if pa.types.is_struct(before):
        return row(value, list(before), list(after))
    if pa.types.is_map(before):
        return [(key, model(item, before.item_type, after.item_type)) for key, item in value]
    if pa.types.is_list(before):
        return [model(item, before.value_type, after.value_type) for item in value]
    return value


def row(value: dict[str, Any], before: list[Any], after: list[Any]) -> dict[str, Any]:
    old = {field_id(child): child for child in before}
    found = {}
    for child in after:
        source = old.get(field_id(child))
        found[child.name] = None if source is None else model(value[source.name], source.type, child.type)
    return found


@st.composite
def evolved(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Any, Any]:
    columns = draw(st.lists(types(depth=3), min_size=1, max_size=4))
    before = numbered(pa.schema([pa.field(f"c{number}", type_) for number, type_ in enumerate(columns)]))
    rows = draw(st.lists(st.fixed_dictionaries({column.name: values(column.type) for column in before}), max_size=6))
    return rows, before, pa.schema(Evolution(draw).fields(list(before)))


@given(evolved(), st.integers(0, 6), st.integers(0, 6))
def test_projection_does_what_going_value_by_value_does(
    given_: tuple[list[dict[str, Any]], Any, Any], start: int, length: int
) -> None:
    rows, before, after = given_
    batch = pa.RecordBatch.from_pylist(rows, schema=before).slice(start, length)
    projected = Projection(before, after).apply(batch)
    projected.validate(full=True)
    assert projected.schema.equals(after)
    assert projected.to_pylist() == [row(value, list(before), list(after)) for value in rows[start : start + length]]


@given(evolved())
def test_what_is_the_same_is_passed_on_as_it_is(given_: tuple[list[dict[str, Any]], Any, Any]) -> None:
    rows, before, _ = given_
    batch = pa.RecordBatch.from_pylist(rows, schema=before)
    assert Projection(before, before).apply(batch) is batch


def test_ids_count_even_where_names_and_types_are_the_same() -> None:
    before = pa.schema([field("place", pa.struct([field("street", pa.string(), 2)]), 1)])
    after = pa.schema([field("place", pa.struct([field("street", pa.string(), 3)]), 1)])
    batch = pa.RecordBatch.from_pylist([{"place": {"street": "Gasse"}}, {"place": None}], schema=before)
    assert Projection(before, after).apply(batch).to_pylist() == [{"place": {"street": None}}, {"place": None}]


def test_columns_under_another_id_and_columns_with_one_text() -> None:
    text, number = pa.string(), pa.int32()
    before = pa.schema([field("msg", text, 1), field("level", number, 2), field("hash", text, 3)])
    after = pa.schema(
        [
            field("message", text, 7),
            field("hash", text, 3),
            field("msg", text, 1),
            field("size", pa.int64(), 8),
            field("new", text, 9),
        ]
    )
    projection = Projection(before, after, moved={7: 1, 8: 2}, constants={3: "current"})
    assert projection.needed == {0, 1}
    batch = pa.RecordBatch.from_pylist([{"msg": "a", "level": 4, "hash": "old"}, {"msg": None}], schema=before)
    assert projection.apply(batch).to_pylist() == [
        {"message": "a", "hash": "current", "msg": "a", "size": 4, "new": None},
        {"message": None, "hash": "current", "msg": None, "size": None, "new": None},
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.string(), pa.int32()),
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.int32(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.decimal128(9, 2), pa.decimal128(8, 2)),
        (pa.binary(5), pa.binary(6)),
        (pa.int32(), pa.list_(pa.int32())),
        (pa.date32(), pa.timestamp("us")),
        (pa.dictionary(pa.int32(), pa.string()), pa.int32()),
    ],
    ids=str,
)
def test_types_that_iceberg_does_not_promote_are_refused(before: Any, after: Any) -> None:
    with pytest.raises(RewriteFault, match="column amount is .* which cannot be read as") as fault:
        Projection(pa.schema([field("amount", before, 1)]), pa.schema([field("amount", after, 1)]))
    assert fault.value.kind == "schema"


def test_a_value_that_does_not_fit_is_not_told() -> None:
    projection = Projection(pa.schema([field("name", pa.binary(), 1)]), pa.schema([field("name", pa.string(), 1)]))
    with pytest.raises(RewriteFault, match="^column name holds a value that is not of type string$"):
        projection.apply(pa.RecordBatch.from_pydict({"name": [b"secret\xff"]}))


@pytest.mark.parametrize("nested", [False, True])
def test_a_required_column_must_be_there_and_full(nested: bool) -> None:
    def schema(*fields: Any) -> Any:
        return pa.schema([field("outer", pa.struct(fields), 9)] if nested else fields)

    with pytest.raises(RewriteFault, match="has no column key, which is required"):
        Projection(schema(field("other", pa.int32(), 1)), schema(field("key", pa.int32(), 2, nullable=False)))


def test_nulls_in_a_required_column_are_refused() -> None:
    before, after = (pa.schema([field("key", pa.int32(), 1, nullable)]) for nullable in (True, False))
    projection = Projection(before, after)
    assert projection.apply(pa.RecordBatch.from_pydict({"key": pa.array([1], pa.int32())})).schema == after
    with pytest.raises(RewriteFault, match="column key is required and has nulls"):
        projection.apply(pa.RecordBatch.from_pydict({"key": pa.array([1, None], pa.int32())}))


def test_fields_without_ids_are_named() -> None:
    require_field_ids(numbered(pa.schema([("a", pa.list_(pa.struct([("b", pa.map_(pa.string(), pa.int32()))])))])))
    bad = pa.schema([field("a", pa.list_(field("element", pa.struct([pa.field("b", pa.int32())]), 2)), 1)])
    with pytest.raises(RewriteFault, match="column a.element.b has no field id") as fault:
        require_field_ids(bad)
    assert fault.value.kind == "no-field-ids"


def test_finding_a_field() -> None:
    schema = numbered(
        pa.schema([("a", pa.int32()), ("b", pa.struct([("c", pa.int32()), ("d", pa.list_(pa.int32()))]))])
    )
    assert [find(schema, wanted) for wanted in (1, 2, 3, 4, 99)] == [[0], [1], [1, 0], [1, 1], None]
    with pytest.raises(RewriteFault, match="field id 5 is within d, which is a list or a map"):
        find(schema, 5)


def test_leaves_are_named_as_parquet_names_them(tmp_path: Path) -> None:
    schema = numbered(
        pa.schema(
            [
                ("a.b", pa.int32()),
                ("s", pa.struct([("x", pa.list_(pa.struct([("y", pa.uuid())])))])),
                ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
            ]
        )
    )
    pq.ParquetWriter(tmp_path / "f.parquet", schema, store_schema=False).close()
    file = pq.ParquetFile(tmp_path / "f.parquet")
    assert [leaf.path for leaf in leaves(schema)] == [file.schema.column(at).path for at in range(4)]
    assert leaves(file.schema_arrow) == leaves(schema)
