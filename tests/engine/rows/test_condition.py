"""`--where` means what SQL means: compared with DuckDB over the same rows, in files with and without partitions."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, UUIDType

from lakewarden.engine.rows.condition import condition
from lakewarden.errors import BadFilter
from tests.small_lake import SmallLake

NAN, INFINITE = float("nan"), float("inf")
VALUES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 2, -(2**31), 2**31 - 1],
    "n": [None, 0, 7, -(2**63), 2**63 - 1],
    "d": [None, 0.0, -0.0, 1.5, NAN, INFINITE, -INFINITE],
    "f": [None, 0.0, 2.5, NAN, 3.4028234663852886e38],
    "p": [None, Decimal("1.50"), Decimal("-0.05"), Decimal("99999.99"), Decimal("-99999.99")],
    "s": [None, "", "a", "b", "ab%", "it's"],
    "b": [None, True, False],
    "day": [None, date(2026, 1, 1), date(1969, 12, 31)],
    "seen": [None, datetime(2026, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)],
    "local": [None, datetime(2026, 1, 1), datetime(2026, 1, 1, 12, 30)],
}
LITERALS: dict[str, list[str]] = {
    "k": ["0", "1", "1.5", "-2.5", "2147483647", "2147483648", "-2147483649", "3000000000", "-9999999999.5"],
    "n": ["0", "7", "6.9", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "0.000001"],
    "d": ["0", "1.5", "-1", "1.4", "9223372036854775807"],
    "f": ["0", "2.5", "-1", "2.25"],
    "p": ["1.5", "1.50", "1", "1.505", "-0.051", "99999.99", "100000", "-100000.001", "0"],
    "s": ["''", "'a'", "'b'", "'ab%'", "'it''s'", "'zz'"],
    "b": ["true", "false"],
    "day": ["'2026-01-01'", "'1970-01-01'", "'0001-01-01'"],
    "seen": ["'2026-01-01 00:00:00+00:00'", "'2026-01-01T01:00:00+01:00'", "'1969-12-31T23:59:59.999999Z'"],
    "local": ["'2026-01-01'", "'2026-01-01 12:30:00'", "'2026-01-01T12:30:00.000001'"],
}
TYPES = {
    "k": pa.int32(),
    "n": pa.int64(),
    "d": pa.float64(),
    "f": pa.float32(),
    "p": pa.decimal128(7, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "day": pa.date32(),
    "seen": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
}
SCHEMA = pa.schema([("id", pa.int64()), *TYPES.items()])
ROWS = [
    {"id": place, **{name: values[place * step % len(values)] for step, (name, values) in enumerate(VALUES.items(), 1)}}
    for place in range(40)
]
PARTITIONS = ("", "k", "p", "s", "day", "seen")
COMPARED = ("=", "<", "<=", ">", ">=", "!=", "<>")
OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Texts = tuple[str, str]
"""A filter as Lakewarden takes it, and as DuckDB does: there NaN is greater than every number."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(Path(tmp_path_factory.mktemp("condition")) / "lake") as lake:
        lake.catalog.create_namespace("web")
        for column in PARTITIONS:
            table = lake.catalog.create_table(f"web.by_{column}", SCHEMA)
            if column:
                with table.update_spec() as spec:
                    spec.add_identity(column)
            table.append(pa.Table.from_pylist(ROWS[:20], schema=SCHEMA))
            table.append(pa.Table.from_pylist(ROWS[20:], schema=SCHEMA))
        yield lake


def _compared(column: str, operator: str, literal: str, flipped: bool) -> Texts:
    theirs = f"({column} {operator} {literal})"
    if column in ("d", "f") and operator in (">", ">="):
        theirs = f"({theirs} AND NOT isnan({column}))"
    ours = f"{literal} {OPPOSITE.get(operator, operator)} {column}" if flipped else f"{column} {operator} {literal}"
    return ours, theirs


def _same(text: str) -> Texts:
    return text, f"({text})"


@st.composite
def leaves(draw: st.DrawFn) -> Texts:
    column = draw(st.sampled_from(sorted(TYPES)))
    one, kind = st.sampled_from(LITERALS[column]), draw(st.integers(0, 9))
    if kind < 5:
        return _compared(column, draw(st.sampled_from(COMPARED)), draw(one), draw(st.booleans()))
    negated = draw(st.sampled_from(["", "NOT "]))
    if kind < 7:
        first = draw(one)
        style = [each for each in LITERALS[column] if "'" in each or ("." in each) == ("." in first)]
        listed = draw(st.lists(st.sampled_from(style), min_size=1, max_size=3))
        return _same(f"{column} {negated}IN ({', '.join(listed)})")
    if kind == 7:
        low, high = draw(one), draw(one)
        (_, above), (_, below) = _compared(column, ">=", low, False), _compared(column, "<=", high, False)
        return f"{column} BETWEEN {low} AND {high}", f"({above} AND {below})"
    if kind == 8 and column == "s":
        pattern = draw(st.sampled_from(["'a%'", "'b'", "'%'"]))
        return _same(f"s {negated}LIKE {pattern}")
    if kind == 8 and column in ("d", "f"):
        return f"{column} IS {negated}NAN", f"({negated}isnan({column}))"
    return _same(f"{column} IS {negated}NULL")


def _joined(sides: tuple[Texts, str, Texts]) -> Texts:
    (ours, theirs), word, (our_other, their_other) = sides
    return f"({ours}) {word} ({our_other})", f"({theirs} {word} {their_other})"


filters = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(_joined),
        inner.map(lambda texts: (f"NOT ({texts[0]})", f"(NOT {texts[1]})")),
    ),
    max_leaves=5,
)


@functools.cache
def _duckdb() -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", pa.Table.from_pylist(ROWS, schema=SCHEMA))
    connection.execute("CREATE TABLE mixed AS FROM rows")  # Arrow, to which it would leave the filters, differs for NaN
    return connection


def _ids(lake: SmallLake, table: str, where: str) -> set[int]:
    version = lake.warden.ground.tables.resolve(f"web.by_{table}")
    _, batches = lake.warden.ground.rows.batches(version, where, ["id"])
    return {id for batch in batches for id in batch.column("id").to_pylist()}


@given(texts=filters, partition=st.sampled_from(PARTITIONS))
def test_a_filter_finds_the_rows_that_sql_finds(mixed: SmallLake, texts: Texts, partition: str) -> None:
    ours, theirs = texts
    expected = {id for (id,) in _duckdb().execute(f"SELECT id FROM mixed WHERE {theirs}").fetchall()}
    assert _ids(mixed, partition, ours) == expected, (ours, theirs)


def _where(column: str, matches: Any) -> set[int]:
    return {row["id"] for row in ROWS if row[column] is not None and matches(row[column])}


@pytest.mark.parametrize(
    ("where", "column", "matches"),
    [
        ("s NOT IN ('a', 'b')", "s", lambda s: s not in ("a", "b")),
        ("NOT s IN ('a', 'b')", "s", lambda s: s not in ("a", "b")),
        ("k < 3000000000", "k", lambda _: True),
        ("k IN (3000000000, 1)", "k", lambda k: k == 1),
        ("k > 1.5", "k", lambda k: k >= 2),
        ("n < 99999999999999999999", "n", lambda _: True),
        ("f > 999999999999999999999999999999999999999999", "f", lambda _: False),
        ("d > 1" + "0" * 310, "d", lambda d: d == INFINITE),
        ("d < -1" + "0" * 310, "d", lambda d: d == -INFINITE),
        ("d = 'infinity'", "d", lambda d: d == INFINITE),
        ("NOT d <= 1.5", "d", lambda d: not d <= 1.5),
        ("p > 10", "p", lambda p: p > 10),
        ("p = 1.5", "p", lambda p: p == Decimal("1.5")),
        ("seen = '2026-01-01'", "seen", lambda at: at.year == 2026),
        ("seen < '2026-01-01T00:30:00+01:00'", "seen", lambda at: at.year == 1969),
    ],
)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_null_is_in_no_list_and_below_no_number(
    mixed: SmallLake, where: str, column: str, matches: Any, partition: str
) -> None:
    assert _ids(mixed, partition, where) == _where(column, matches)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("local > '2026-01-01T00:00:00Z'", "local is of type timestamp, and a time without a zone"),
        ("day > '2026-13-01'", "day is of type date, and a date as in"),
        ("p = 'many'", r"p is of type decimal\(7, 2\), and a number is required"),
        ("k = true", "k is of type int, and a number is required"),
        ("s > 3", "s is of type string, and a text as in"),
        ("nothing = 3", "there is no column nothing"),
        ("k LIKE '1%'", "k is of type int, and LIKE compares texts only"),
    ],
)
def test_a_literal_that_does_not_fit_names_what_does(mixed: SmallLake, where: str, told: str) -> None:
    with pytest.raises(BadFilter, match=told):
        _ids(mixed, "", where)


@pytest.mark.parametrize("where", ["code = '{}'", "NOT code IN ('{}')", "code > '{}'", "code LIKE 'f%'"])
def test_uuids_are_not_compared(where: str) -> None:
    """Arrow cannot, and would fail in the midst of reading."""
    schema = Schema(NestedField(1, "code", UUIDType()))
    with pytest.raises(BadFilter, match="code is of type uuid"):
        condition(where.format("f79c3e09-677c-4bbd-a479-3f349cb785e7"), schema, "web.t")
    assert str(condition("code IS NOT NULL", schema, "web.t")).startswith("NotNull")


NARROW = pa.schema([("id", pa.int64()), ("g", pa.int32()), ("h", pa.float32()), ("q", pa.decimal128(5, 2))])
WIDE = pa.schema([("id", pa.int64()), ("g", pa.int64()), ("h", pa.float64()), ("q", pa.decimal128(9, 2))])
GREATEST = 2**31 - 1


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """A table with a file from before its columns got wider types, and one from after."""
    with SmallLake(Path(tmp_path_factory.mktemp("widened")) / "lake") as lake:
        lake.catalog.create_namespace("web")
        table = lake.catalog.create_table("web.by_width", NARROW)
        old = [(0, None, None, None), (1, 5, 0.0, Decimal("1.5")), (2, GREATEST, NAN, Decimal("-999.99"))]
        table.append(pa.Table.from_pylist([dict(zip(NARROW.names, row, strict=True)) for row in old], schema=NARROW))
        with table.update_schema() as update:
            update.update_column("g", LongType())
            update.update_column("h", DoubleType())
            update.update_column("q", DecimalType(9, 2))
        new = [(3, None, None, None), (4, 2**40, 1e300, Decimal("123456.25"))]
        table.append(pa.Table.from_pylist([dict(zip(WIDE.names, row, strict=True)) for row in new], schema=WIDE))
        yield lake


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("g < 3000000000", {1, 2}),
        ("g <= 3000000000", {1, 2}),
        ("g > -3000000000", {1, 2, 4}),
        ("NOT g >= 3000000000", {1, 2}),
        ("g != 3000000000", {1, 2, 4}),
        ("g IN (3000000000, 5)", {1}),
        ("g NOT IN (3000000000, 5)", {2, 4}),
        ("g = 3000000000", set()),
        ("h < 1000000000000000000000000000000000000000000000000000000000000", {1}),
        ("NOT h >= 1000000000000000000000000000000000000000000000000000000000000", {1, 2}),
        ("h > -1000000000000000000000000000000000000000000000000000000000000", {1, 4}),
        ("h IN (1000000000000000000000000000000000000000000000000000000000000, 0)", {1}),
        ("h != 1000000000000000000000000000000000000000000000000000000000000", {1, 2, 4}),
        ("q < 999.99", {1, 2}),
        ("q > 999.99", {4}),
        ("q NOT IN (1.5)", {2, 4}),
    ],
)
def test_columns_that_got_wider_types(widened: SmallLake, where: str, expected: set[int]) -> None:
    """In older files, a literal may be beyond the type that the column had then."""
    assert _ids(widened, "width", where) == expected


def test_a_number_that_older_files_would_round_is_refused(widened: SmallLake) -> None:
    for where in ("h > 0.1", "h != 0.1", "NOT h IN (0.1, 2.5)", "h < 16777217"):
        with pytest.raises(BadFilter, match=r"h is of type float in older files"):
            _ids(widened, "width", where)
    assert _ids(widened, "width", "h < 0.5") == {1}


@pytest.mark.parametrize("where", ["q < 1000", "q <> 123456.25", "q IN (123456.25, 1.5)", "q < 99999999999"])
def test_a_decimal_beyond_the_precision_of_older_files_is_refused(widened: SmallLake, where: str) -> None:
    with pytest.raises(BadFilter, match=r"q is of type decimal\(5, 2\) in older files"):
        _ids(widened, "width", where)


@pytest.mark.parametrize("where", ["d != 0", "NOT d = 0", "d NOT IN (0)", "d NOT IN (0, 1)", "f <> 0", "NOT f IN (0)"])
def test_nan_differs_from_every_number(tmp_path: Path, where: str) -> None:
    """Statistics leave NaN out: Arrow takes a group of rows with one other value for one with that value only."""
    schema = pa.schema([("id", pa.int64()), ("d", pa.float64()), ("f", pa.float32())])
    with SmallLake(tmp_path / "lake") as lake:
        lake.catalog.create_namespace("web")
        rows = [{"id": id, "d": value, "f": value} for id, value in enumerate([0.0, NAN, None, 0.0])]
        lake.catalog.create_table("web.by_nan", schema).append(pa.Table.from_pylist(rows, schema=schema))
        assert _ids(lake, "nan", where) == {1}


@pytest.mark.parametrize(
    ("key", "value", "hidden"), [("q", "123456.25", 4), ("q", "1.5", 1), ("g", "3000000000", None)]
)
def test_hidden_values_beyond_the_type_of_older_files(
    widened: SmallLake, key: str, value: str, hidden: int | None
) -> None:
    asked = widened.warden.erasure.request("web.by_width", key=key, value=[value], look=False)
    assert _ids(widened, "width", "") == {0, 1, 2, 3, 4} - {hidden}
    widened.warden.erasure.withdraw(asked.id).apply()
