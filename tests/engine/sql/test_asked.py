"""Statements of callers: what they read, and where functions that change something may be called."""

from __future__ import annotations

import pytest

from lakewarden.engine.sql.asked import Asked, Dialect, Kind, Read
from lakewarden.engine.sql.statement import Statement
from lakewarden.errors import BadValue

FUNCTIONS = {
    "list_parts": Kind.LIST,
    "one_instance": Kind.READS,
    "make_parts": Kind.CHANGES,
    "retire_part": Kind.CHANGES_BY_ROW,
}


def asked(text: str, dialect: Dialect = "duckdb") -> Asked:
    return Asked(text, dialect, FUNCTIONS)


def test_what_it_reads() -> None:
    found = asked(
        "WITH some AS (SELECT * FROM sales.orders) "
        'SELECT count(*) FROM some JOIN list_parts() p ON true, lake.sales.orders o, "sales.orders@v1"'
    )
    assert set(found.reads) == {
        Read(("sales", "orders")),
        Read(("lake", "sales", "orders")),
        Read(("sales.orders@v1",)),
    }
    assert {read.reference for read in found.reads} == {
        "`sales`.`orders`",
        "`lake`.`sales`.`orders`",
        "sales.orders@v1",
    }
    assert found.lists == ("list_parts",)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT a FROM t", ["a"]),
        ("SELECT count(*) FROM t", []),
        ("SELECT count(*) FROM t WHERE B > 1", ["b"]),
        ("SELECT * FROM t", ["a", "b", "c"]),
        ("SELECT t.* FROM t", ["a", "b", "c"]),
        ("SELECT * EXCLUDE (a) FROM t", ["a", "b", "c"]),
        ("SELECT COLUMNS('a|b') FROM t", ["a", "b", "c"]),
        ("SELECT x FROM t x", ["a", "b", "c"]),
        ("SELECT count(*) FROM t NATURAL JOIN u", ["a", "b", "c"]),
        ("SELECT count(*) FROM t JOIN u USING (c)", ["c"]),
        ("FROM t", ["a", "b", "c"]),
        ("SELECT b FROM t AS u(b)", ["a", "b", "c"]),
        ("SELECT #1, b FROM t", ["a", "b", "c"]),
        ("SELECT count(*) FROM (DESCRIBE t)", ["a", "b", "c"]),
        ("SELECT count(*) FROM (SUMMARIZE t)", ["a", "b", "c"]),
        ("SELECT len(main.t::VARCHAR) FROM main.t", ["a", "b", "c"]),
    ],
)
def test_only_the_columns_that_it_may_use_are_read(text: str, columns: list[str]) -> None:
    assert asked(text).columns_of(["a", "b", "c"]) == columns


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM make_parts('x')",
        "SELECT max(msg) AS last FROM make_parts('x') m WHERE m.msg <> ''",
        "SELECT retire_part(path) FROM list_parts()",
        "SELECT *, retire_part(path) AS told, retire_part('b') FROM list_parts() ORDER BY path LIMIT 3",
        "WITH some AS (SELECT 'x' AS path) SELECT retire_part(path) FROM some",
    ],
)
def test_places_where_something_may_change(text: str) -> None:
    found = asked(text)
    assert found.change or found.items


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper(retire_part(path)) FROM list_parts()",
        "SELECT 1 FROM list_parts() WHERE retire_part(path) = 'x'",
        "SELECT 1 FROM list_parts() ORDER BY retire_part(path)",
        "SELECT CASE WHEN true THEN retire_part('x') END",
        "SELECT * FROM (SELECT retire_part(path) FROM list_parts())",
        "WITH w AS (SELECT retire_part(path) FROM list_parts()) SELECT * FROM w",
        "SELECT retire_part('a') UNION ALL SELECT retire_part('b')",
        "SELECT (SELECT retire_part('a'))",
        "SELECT retire_part(retire_part('a'))",
        "SELECT * FROM make_parts('x') JOIN list_parts() p ON true",
        "SELECT * FROM list_parts(), make_parts('x')",
        "SELECT * FROM (SELECT * FROM make_parts('x'))",
        "SELECT * FROM make_parts('x') WHERE 1 IN (SELECT 1 FROM make_parts('y'))",
        "SELECT retire_part('x') FROM make_parts('y')",
        "SELECT make_parts('x')",
        "SELECT * FROM retire_part('x')",
        "SELECT * FROM list_parts() WHERE EXISTS (SELECT * FROM make_parts('x'))",
    ],
)
@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_anywhere_else_it_is_refused(text: str, dialect: Dialect) -> None:
    with pytest.raises(BadValue, match="changes something and may only be called"):
        asked(text, dialect)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DELETE FROM t", "not one SELECT"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("", "not one SELECT"),
        ("COPY t TO 'x'", "not one SELECT"),
        ("SET threads = 1", "not one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "not one SELECT"),
        ("WITH w AS (INSERT INTO t VALUES (1)) SELECT * FROM w", "not one SELECT"),
        ("SELECT FROM WHERE", "cannot be parsed"),
        ("SELECT * FROM read_csv('x')", "read_csv is not a table"),
        ("SELECT * FROM lake.a.b.t", "lake.a.b.t is not a table"),
        ("SELECT * FROM t FOR VERSION AS OF 3", "in the name of a table"),
        ("SELECT * FROM one_instance('x', y)", "must be texts"),
    ],
)
def test_what_is_no_statement_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        asked(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT `java_method`('java.lang.System', 'getenv', 'HOME')",
        "SELECT TRANSFORM(id) USING 'id' AS (x string) FROM raw.a",
        "SELECT * FROM (SELECT TRANSFORM(id) USING 'id' AS (x string) FROM raw.a)",
    ],
)
def test_no_program_is_run(text: str) -> None:
    """Neither by callers nor by view sets (engine/sql/reach.py)."""
    with pytest.raises(BadValue, match="is not available in SQL"):
        asked(text, "spark")
    with pytest.raises(BadValue, match="is not available in SQL"):
        Statement(text.replace("FROM raw.a", "FROM raw.a WHERE at >= {begin} AND at < {end}")).over(str)


def test_a_column_named_like_a_function_is_read() -> None:
    assert asked("SELECT current_date FROM t").columns_of(["a", "current_date"]) == ["current_date"]


def test_a_hint_is_no_table() -> None:
    assert asked("SELECT /*+ BROADCAST(x) */ a FROM sales.orders x", "spark").reads == (Read(("sales", "orders")),)


def test_lateral_calls_are_checked() -> None:
    assert asked("SELECT * FROM t LATERAL VIEW explode(a) x AS y", "spark").reads
    for text in ("SELECT * FROM t, LATERAL duckdb_settings()", "SELECT * FROM t, LATERAL list_parts()"):
        with pytest.raises(BadValue, match="cannot be called in LATERAL"):
            asked(text)


def test_fields_of_structs_keep_their_alias() -> None:
    found = asked("SELECT o.s.x, raw.a.id FROM raw.a JOIN raw.b o ON true", "spark")
    text = found.over({Read(("raw", "a")): "v0", Read(("raw", "b")): "v1"})
    assert text == "SELECT o.s.x, a.id FROM v0 AS `a` JOIN v1 AS o ON TRUE"


def test_arguments_know_the_with_clause() -> None:
    found = asked("WITH w AS (SELECT 'x' AS n) SELECT * FROM make_parts((SELECT n FROM w))")
    assert found.arguments().reads == () and found.change_arguments == 1


def test_other_names_for_what_it_reads() -> None:
    found = asked("SELECT sales.orders.a, p.b FROM sales.orders JOIN list_parts() p ON true", "spark")
    text = found.over({Read(("sales", "orders")): "v0", "list_parts": "v1"})
    assert text == "SELECT orders.a, p.b FROM v0 AS `orders` JOIN v1 AS p ON TRUE"


def test_arguments_are_a_statement_of_their_own() -> None:
    found = asked("SELECT * FROM make_parts('a''b', (SELECT max(a) FROM sales.orders), 1 + 1)")
    assert found.arguments().text == "SELECT 'a''b' AS a0, (SELECT MAX(a) FROM sales.orders) AS a1, 1 + 1 AS a2"
    assert found.arguments().reads == (Read(("sales", "orders")),)
