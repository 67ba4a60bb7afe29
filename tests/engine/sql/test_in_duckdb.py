"""Statements on DuckDB: over what is given to it, and nothing else."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.sql.asked import Asked, Kind, Read
from lakewarden.engine.sql.in_duckdb import run
from lakewarden.errors import BadValue

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
FUNCTIONS = {"list_parts": Kind.LIST, "make_parts": Kind.CHANGES, "retire_part": Kind.CHANGES_BY_ROW}


def ran(text: str, memory_mb: int = 500, **rows: pa.Table) -> Any:
    asked = Asked(text, "duckdb", FUNCTIONS)
    tables: dict[Read | str, pa.Table] = dict.fromkeys(asked.reads, ROWS)
    tables |= dict.fromkeys(asked.lists, ROWS)
    if asked.change:
        tables[asked.change] = ROWS
    return run(asked, tables, memory_mb)


@pytest.mark.parametrize(
    "name",
    [
        *("orders", "sales.orders", "lake.sales.orders", "main.sales.orders", "main.orders"),
        *('"sales.orders@v1"', '"a""b"."c d"', "list_parts()"),
    ],
)
def test_tables_have_the_names_that_the_statement_uses(name: str) -> None:
    assert ran(f"SELECT count(*) AS n, array_agg(b) AS all FROM {name} AS t").to_pylist() == [
        {"n": 3, "all": ["x", "y", "z"]}
    ]


def test_columns_may_be_qualified_by_the_name() -> None:
    assert ran("SELECT sales.orders.a FROM sales.orders WHERE orders.b = 'y'").to_pydict() == {"a": [2]}
    assert ran("SELECT main.sales.orders.a FROM main.sales.orders WHERE orders.b = 'y'").to_pydict() == {"a": [2]}


def test_a_table_may_be_read_twice() -> None:
    text = "WITH w AS (SELECT * FROM sales.orders) SELECT count(*) AS n FROM w x JOIN w y ON x.a <> y.a"
    assert ran(text).to_pydict() == {"n": [6]}


def test_sums_of_integers_are_integers() -> None:
    found = ran("SELECT sum(a) AS small, sum(a::HUGEINT * 10::HUGEINT ** 30) > 0 AS large FROM t")
    assert found.schema.field("small").type == pa.int64()
    kept = run(Asked("SELECT a FROM t", "duckdb", {}), {Read(("t",)): pa.table({"a": [Decimal("1.50")]})}, 500)
    assert kept.schema.types == [pa.decimal128(3, 2)]


def test_a_call_gives_its_arguments() -> None:
    found = ran("SELECT a, retire_part(b) FROM list_parts() ORDER BY a DESC LIMIT 1").to_pylist()
    assert found == [{"a": 3, "retire_part(b)": {"lw:retire_part": 0, "a0": "z"}}]


def test_rows_take_the_place_of_a_function() -> None:
    assert ran("SELECT max(m.a) AS n FROM make_parts('x', (SELECT 1)) AS m").to_pydict() == {"n": [3]}


def test_nothing_else_can_be_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("secret\n")
    known = pa.table({"secret": [1]})  # a variable of Python, which DuckDB would find by its name
    assert known.num_rows
    for text in (
        f"SELECT * FROM list_parts() WHERE b = (SELECT content FROM read_text('{secret}'))",
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_settings()",
    ):
        with pytest.raises(BadValue):
            ran(text)
    for text in (f"SELECT * FROM '{secret}'", "SELECT * FROM known"):
        with pytest.raises(BadValue, match="does not exist|disabled by configuration"):
            run(Asked(text, "duckdb", FUNCTIONS), {}, 500)


def test_too_much_memory_is_refused() -> None:
    text = "SELECT list(range) FROM range(50000000)"
    with pytest.raises(BadValue, match="more than 64 MB of memory"):
        ran(text, memory_mb=64)


def test_errors_are_one_line() -> None:
    with pytest.raises(BadValue, match="Referenced column") as caught:
        ran("SELECT nothing FROM sales.orders")
    assert "\n" not in caught.value.message


def test_rows_are_never_written_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would write them to .tmp in the working folder, where a killed process leaves them."""
    monkeypatch.chdir(tmp_path)
    text = "SELECT range::VARCHAR || repeat('anna@example.org', 8) AS e FROM range(1000000) ORDER BY e"
    with pytest.raises(BadValue, match="more than 64 MB of memory") as error:
        ran(text, memory_mb=64)
    assert "query.memory_mb" in error.value.hint and list(tmp_path.rglob("*")) == []
