"""What manifests tell of new files: counts and bounds as Iceberg has them, for every type and every metrics mode."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, StringType

from lakewarden.engine.files.column_metrics import _cut_text, _raised_bytes, _raised_text, metrics_modes, metrics_of
from lakewarden.engine.files.written_files import layout_for, plain_schema
from lakewarden.engine.kernel.schema import nan_counts
from tests.engine.lakes import Lake, lake
from tests.examples import examples

__all__ = ["lake"]


def table_of(lake: Lake, schema: pa.Schema, **properties: str) -> Any:
    lake.catalog.create_namespace_if_not_exists("db")
    return lake.catalog.create_table("db.t", schema, properties=properties)


def footer_of(table: Any, rows: list[dict[str, Any]], folder: Path, group: int = 2) -> Any:
    """Rows in a Parquet file as the kernel writes it, a row group for every two of them."""
    path = folder / "file.parquet"
    content = pa.Table.from_pylist(rows, schema=plain_schema(table.schema()))
    pq.write_table(content, path, row_group_size=group, store_schema=False, store_decimal_as_integer=True)
    return pq.read_metadata(path)


def written(table: Any, rows: list[dict[str, Any]], folder: Path) -> tuple[Any, dict[int, int]]:
    """The footer of such a file, and what its writer counted."""
    return footer_of(table, rows, folder), nan_counts(pa.Table.from_pylist(rows, schema=plain_schema(table.schema())))


def bounds(schema: Schema, told: dict[str, Any], name: str) -> tuple[Any, ...]:
    kind: Any = schema.find_field(name).field_type
    found = [told[side].get(schema.find_field(name).field_id) for side in ("lower_bounds", "upper_bounds")]
    return tuple(None if one is None else from_bytes(kind, one) for one in found)


TYPES = pa.schema(
    [
        ("b", pa.bool_()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("d9", pa.decimal128(9, 2)),
        ("d18", pa.decimal128(18, 2)),
        ("d38", pa.decimal128(38, 2)),
        ("day", pa.date32()),
        ("at", pa.time64("us")),
        ("t", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("fixed", pa.binary(3)),
        ("in", pa.struct([("a", pa.int32())])),
        ("many", pa.list_(pa.int32())),
    ]
)
VALUES: list[dict[str, Any]] = [
    {"b": True, "i": 5, "l": -(2**62), "f": 1.5, "d": -0.25, "d9": Decimal("-1.25"), "d18": Decimal("99.99")}
    | {"d38": Decimal("-12345678901234567890.12"), "day": date(1, 1, 1), "at": time(1), "t": datetime(2026, 1, 1)}
    | {"tz": datetime(1969, 1, 1, tzinfo=UTC), "s": "b", "bin": b"\x80", "fixed": b"abc", "in": {"a": 7}, "many": [1]},
    {},
    {"f": float("nan"), "d": float("nan")},
    {"f": float("nan"), "d": float("nan")},
    {"b": False, "i": -7, "l": 2**62, "f": -3.0, "d": 8.0, "d9": Decimal("3.00"), "d18": Decimal("-128.00")}
    | {"d38": Decimal("0.01"), "day": date(9999, 12, 31), "at": time(23), "t": datetime(1960, 1, 1)}
    | {"tz": datetime(2026, 1, 1, tzinfo=UTC), "s": "", "bin": b"\x7f", "fixed": b"\xff\x00\x00", "in": {"a": -7}},
]


def test_bounds_of_every_type_over_several_row_groups(lake: Lake, tmp_path: Path) -> None:
    table = table_of(lake, TYPES)
    schema, told = table.schema(), metrics_of(table.metadata, *written(table, VALUES, tmp_path))
    for name in TYPES.names[:-2]:
        values = [row[name] for row in VALUES if row.get(name) is not None and row[name] == row[name]]
        found = bounds(schema, told, name)
        if name in ("day", "at", "t", "tz"):
            found = tuple(_as_time(name, one) for one in found)
        assert found == (min(values), max(values)), name
    assert bounds(schema, told, "in.a") == (-7, 7)
    lists = schema.find_field("many.element").field_id
    assert lists in told["column_sizes"] and lists not in told["value_counts"]
    assert told["null_value_counts"][schema.find_field("i").field_id] == 3
    assert told["null_value_counts"][schema.find_field("f").field_id] == 1
    assert told["nan_value_counts"] == {schema.find_field(name).field_id: 2 for name in ("f", "d")}
    assert set(told["value_counts"].values()) == {5}
    assert len(told["split_offsets"]) == 3 and told["split_offsets"][0] == 4


def _as_time(name: str, value: int) -> Any:
    if name == "day":
        return date(1970, 1, 1) + timedelta(days=value)
    moment = datetime(1970, 1, 1, tzinfo=UTC if name == "tz" else None) + timedelta(microseconds=value)
    return moment.time() if name == "at" else moment


def test_times_beyond_what_python_has(lake: Lake, tmp_path: Path) -> None:
    table = table_of(lake, pa.schema([("t", pa.timestamp("us"))]))
    path = tmp_path / "far.parquet"
    far = pa.array([2**61, -(2**61)]).cast(pa.timestamp("us"))
    pq.write_table(pa.table([far], schema=plain_schema(table.schema())), path, store_schema=False)
    told = metrics_of(table.metadata, pq.read_metadata(path), {})
    assert bounds(table.schema(), told, "t") == (-(2**61), 2**61)


def test_a_row_group_that_says_nothing_of_its_values_leaves_the_file_without_bounds(lake: Lake, tmp_path: Path) -> None:
    """Parquet leaves very long values out of its statistics: bounds of the other row groups would lose rows."""
    table = table_of(lake, pa.schema([("s", pa.string()), ("i", pa.int32())]))
    rows: list[dict[str, Any]]
    rows = [{"s": "z" * 5000, "i": 1}, {"s": "a", "i": 2}, {"s": "b", "i": None}, {"s": "c", "i": None}, {"s": None}]
    told = metrics_of(table.metadata, footer_of(table, rows, tmp_path), {})
    assert bounds(table.schema(), told, "s") == (None, None)
    assert bounds(table.schema(), told, "i") == (1, 2)
    told = metrics_of(table.metadata, footer_of(table, rows[2:], tmp_path), {})
    assert bounds(table.schema(), told, "s") == ("b", "c")


def test_nan_is_counted_within_structs_and_not_where_a_struct_is_null(lake: Lake, tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.float64()), ("deep", pa.struct([("y", pa.float32())]))])
    table = table_of(lake, pa.schema([("d", pa.float64()), ("s", inner), ("l", pa.list_(pa.float64()))]))
    nan = float("nan")
    below_null = pa.StructArray.from_arrays(  # what lies below a null is no value
        [pa.array([nan, nan, 1.0]), pa.StructArray.from_arrays([pa.array([nan, 2.0, nan], pa.float32())], ["y"])],
        fields=list(plain_schema(table.schema()).field("s").type),
        mask=pa.array([True, False, False]),
    )
    rows = pa.table(
        [pa.array([nan, nan, None]), below_null, [[nan], None, []]],
        schema=plain_schema(table.schema()),
    )
    ids = {name: table.schema().find_field(name).field_id for name in ("d", "s.x", "s.deep.y")}
    assert nan_counts(rows) == {ids["d"]: 2, ids["s.x"]: 1, ids["s.deep.y"]: 1}
    assert nan_counts(rows.slice(1)) == {ids["d"]: 1, ids["s.x"]: 1, ids["s.deep.y"]: 1}
    assert nan_counts(rows.slice(0, 1)) == {ids["d"]: 1, ids["s.x"]: 0, ids["s.deep.y"]: 0}


def test_bounds_are_never_told_without_a_count_of_nan(lake: Lake, tmp_path: Path) -> None:
    """Other engines take them to mean that no value is NaN, and delete whole files by them."""
    table = table_of(lake, pa.schema([("d", pa.float64()), ("i", pa.int32())]))
    footer, counted = written(table, [{"d": 1.0, "i": 1}, {"d": 2.0, "i": 2}], tmp_path)
    assert bounds(table.schema(), metrics_of(table.metadata, footer, counted), "d") == (1.0, 2.0)
    unknown = metrics_of(table.metadata, footer, {})
    assert bounds(table.schema(), unknown, "d") == (None, None) and unknown["nan_value_counts"] == {}
    assert bounds(table.schema(), unknown, "i") == (1, 2)


def test_metrics_modes(lake: Lake, tmp_path: Path) -> None:
    mode = "write.metadata.metrics.column."
    table = table_of(
        lake,
        pa.schema([(name, pa.string()) for name in ("none", "counts", "three", "full", "bad", "usual")]),
        **{f"{mode}none": "none", f"{mode}counts": "Counts", f"{mode}three": "truncate(3)", f"{mode}full": "full"},
        **{f"{mode}bad": "truncate(0)"},
    )
    rows = [dict.fromkeys(table.schema().as_arrow().names, value) for value in ("abcdefghijklmnopqrst", None)]
    told = metrics_of(table.metadata, footer_of(table, rows, tmp_path), {})
    found = {name: bounds(table.schema(), told, name) for name in rows[0]}
    assert found == {
        "none": (None, None),
        "counts": (None, None),
        "three": ("abc", "abd"),
        "full": ("abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
        "bad": ("abcdefghijklmnop", "abcdefghijklmnoq"),
        "usual": ("abcdefghijklmnop", "abcdefghijklmnoq"),
    }
    ids = {name: table.schema().find_field(name).field_id for name in rows[0]}
    assert ids["none"] not in told["value_counts"] and ids["none"] in told["column_sizes"]
    assert told["null_value_counts"] == {ids[name]: 1 for name in rows[0] if name != "none"}


def test_very_wide_tables_tell_of_their_first_columns_only(lake: Lake) -> None:
    table = table_of(lake, pa.schema([(f"c{i}", pa.int32()) for i in range(130)]))
    assert list(metrics_modes(table.metadata).values()) == ["16"] * 100 + ["none"] * 30
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.max-inferred-column-defaults": "5"})
        change.set_properties({"write.metadata.metrics.column.c129": "full"})
    modes = metrics_modes(lake.catalog.load_table("db.t").metadata)
    assert [name for name in modes.values() if name != "none"] == ["16"] * 5 + ["full"]
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.default": "counts"})
    assert set(metrics_modes(lake.catalog.load_table("db.t").metadata).values()) == {"counts", "full"}


@examples(300)
@given(st.text(), st.integers(1, 5))
def test_cut_text_still_bounds_it(text: str, length: int) -> None:
    value = text.encode()
    lower, upper = _cut_text(value, length), _raised_text(value, length)
    assert lower <= value
    assert upper is None or upper >= value
    assert len(lower.decode()) <= length
    assert upper is None or len(upper.decode()) <= length
    assert upper is not None or set(text[:length]) == {"\U0010ffff"}
    assert upper is None or from_bytes(StringType(), upper) is not None


@examples(300)
@given(st.binary(), st.integers(1, 5))
def test_cut_bytes_still_bound_them(value: bytes, length: int) -> None:
    upper = _raised_bytes(value, length)
    assert value[:length] <= value
    assert upper is None or (value <= upper and len(upper) <= length)
    assert upper is not None or set(value[:length]) == {0xFF}
    assert upper is None or bytes(from_bytes(BinaryType(), upper)) == upper  # type: ignore[arg-type]


@pytest.mark.parametrize("unscaled", [0, 1, -1, 127, 128, -128, -129, 2**63, -(2**127)])
def test_decimals_are_stored_in_as_few_bytes_as_hold_them(unscaled: int) -> None:
    from pyiceberg.utils.decimal import decimal_to_bytes

    from lakewarden.engine.files.column_metrics import _number

    assert _number(unscaled) == decimal_to_bytes(Decimal(unscaled))


@pytest.mark.parametrize(
    ("codec", "level", "expected"),
    [
        ("zstd", "5", ("zstd", 5)),
        ("ZSTD", "-3", ("zstd", -3)),
        ("gzip", "BEST_SPEED", ("gzip", None)),
        ("snappy", "5", ("snappy", None)),
        ("uncompressed", "1", ("uncompressed", None)),
        (None, None, ("zstd", None)),
    ],
)
def test_a_level_goes_only_to_codecs_that_have_one(
    lake: Lake, codec: str | None, level: str | None, expected: tuple[str, int | None]
) -> None:
    given = {"write.parquet.compression-codec": codec, "write.parquet.compression-level": level}
    table = table_of(lake, pa.schema([("a", pa.int32())]), **{key: value for key, value in given.items() if value})
    layout = layout_for(table, 1 << 20, "counts", 1 << 29)
    assert (layout.codec, layout.level) == expected


@pytest.mark.parametrize("text", ["", "much", "0", "1", "-2"])
def test_properties_that_say_nothing_sensible_count_as_not_said(lake: Lake, text: str) -> None:
    parquet = "write.parquet."
    table = table_of(
        lake,
        pa.schema([("a", pa.int32())]),
        **{f"{parquet}bloom-filter-enabled.column.a": "TRUE", f"{parquet}bloom-filter-fpp.column.a": text},
        **{f"{parquet}row-group-size-bytes": text.replace("1", "-1"), f"{parquet}page-size-bytes": "x"},
    )
    layout = layout_for(table, 1 << 20, "full", 1 << 29)
    assert [bloom.false_positives for bloom in layout.bloom] == [0.01]
    assert (layout.row_group_bytes, layout.page_bytes) == (128 << 20, 1 << 20)
