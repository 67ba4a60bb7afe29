"""SQL as its author wrote it: what it reads, and the forms in which it is run."""

from __future__ import annotations

import pytest

from lakewarden.engine.sql.statement import Statement
from lakewarden.errors import BadValue

RANGE = "inserted_at >= {begin} AND inserted_at < {end}"


def view(table: str) -> str:
    return "v_" + table.replace(".", "_")


def test_tables_get_other_names_and_columns_stay_known() -> None:
    statement = Statement.parse(
        f"WITH own AS (SELECT * FROM raw.logs) SELECT own.level, d.name, dim.kinds.kind FROM own "
        f"JOIN dim.levels d ON d.level = own.level JOIN dim.kinds ON true WHERE {RANGE}"
    )
    assert set(statement.tables) == {"raw.logs", "dim.levels", "dim.kinds"}
    text = statement.over(view)
    assert "v_raw_logs AS logs" in text and "v_dim_levels AS d" in text and "v_dim_kinds AS kinds" in text
    assert "kinds.kind" in text and "dim." not in text.replace("v_dim_", "") and ":lw_begin" in text


def test_fields_of_nested_columns_are_not_tables() -> None:
    text = Statement.parse(
        f"SELECT event.user.id, raw.logs.event.user.name, RAW.logs.level, l.event.user.id AS i "
        f"FROM raw.logs JOIN raw.more l ON true WHERE {RANGE}"
    ).over(view)
    assert "SELECT event.user.id, logs.event.user.name, logs.level, l.event.user.id AS i FROM" in text


def test_names_of_with_clauses_are_known_only_where_they_are_visible() -> None:
    inner = "(WITH own AS (SELECT 1 AS x) SELECT x FROM own)"
    for sql, tables in (
        (f"SELECT * FROM own WHERE {RANGE} AND x IN {inner}", ("own",)),
        (f"WITH own AS (SELECT * FROM own) SELECT * FROM own WHERE {RANGE}", ("own",)),
        (f"WITH a AS (SELECT * FROM raw.logs), b AS (SELECT * FROM A) SELECT * FROM b WHERE {RANGE}", ("raw.logs",)),
        (
            f"WITH a AS (SELECT * FROM b), b AS (SELECT * FROM raw.logs) SELECT * FROM a WHERE {RANGE}",
            ("b", "raw.logs"),
        ),
        (f"WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x FROM a) SELECT * FROM a WHERE {RANGE}", ()),
    ):
        assert set(Statement.parse(sql).tables) == set(tables), sql


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT level, upper(msg) AS m FROM raw.logs WHERE {RANGE} AND level > 2",
        "SELECT l.level FROM raw.logs l WHERE l.inserted_at >= '{begin}' AND l.inserted_at < '{end}'",
    ],
)
def test_row_by_row_one_pass_does(sql: str) -> None:
    statement = Statement.parse(sql)
    assert statement.ranges_at_once("raw.logs", "inserted_at")
    assert ", lw_range FROM v_raw_logs" in statement.by_range(view)
    assert "lw_range" not in statement.over(view)


def test_groups_are_kept_apart_by_range() -> None:
    statement = Statement.parse(f"SELECT level, count(*) AS n FROM raw.logs WHERE {RANGE} GROUP BY 1 HAVING n > 2")
    assert statement.ranges_at_once("raw.logs", "inserted_at")
    text = statement.by_range(view)
    assert ", lw_range FROM v_raw_logs" in text and "GROUP BY 1, lw_range" in text


def test_all_columns_of_the_source_include_the_number_of_the_range() -> None:
    assert Statement.parse(f"SELECT l.* FROM raw.logs l WHERE {RANGE}").ranges_at_once("raw.logs", "inserted_at")
    statement = Statement.parse(f"SELECT *, level + 1 AS next FROM raw.logs WHERE {RANGE}")
    assert statement.ranges_at_once("raw.logs", "inserted_at")
    assert "lw_range" not in statement.by_range(view)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT count(*) FROM raw.logs WHERE {RANGE}",
        f"SELECT level, count(*) FROM raw.logs WHERE {RANGE} GROUP BY ROLLUP(level)",
        f"SELECT level, count(*) FROM raw.logs WHERE {RANGE} GROUP BY level WITH CUBE",
        f"SELECT level, count(*) FROM raw.logs WHERE {RANGE} GROUP BY ALL",
        f"SELECT level, process_id FROM raw.logs WHERE {RANGE} GROUP BY GROUPING SETS ((level), (process_id))",
        f"SELECT DISTINCT level FROM raw.logs WHERE {RANGE}",
        f"SELECT level FROM raw.logs WHERE {RANGE} LIMIT 5",
        f"SELECT row_number() OVER (ORDER BY level) FROM raw.logs WHERE {RANGE}",
        f"SELECT a.level FROM raw.logs a JOIN raw.logs b ON a.level = b.level WHERE a.{RANGE}",
        f"SELECT level FROM raw.logs WHERE {RANGE} OR level = 1",
        f"SELECT level, {{begin}} AS b FROM raw.logs WHERE {RANGE}",
        "SELECT level FROM raw.logs WHERE inserted_at > {begin} AND inserted_at < {end}",
        "SELECT level FROM raw.logs WHERE time >= {begin} AND time < {end}",
        f"SELECT level FROM raw.logs WHERE {RANGE} AND level IN (SELECT level FROM raw.logs)",
        f"SELECT time, to_json(struct(*)) AS doc FROM raw.logs WHERE {RANGE}",
        f"SELECT time, concat_ws('|', *) AS doc FROM raw.logs WHERE {RANGE}",
        f"SELECT *, to_json(struct(l.*)) AS doc FROM raw.logs l WHERE {RANGE}",
        f"SELECT explode(levels) FROM raw.logs WHERE {RANGE}",
        f"SELECT rand() FROM raw.logs WHERE {RANGE}",
        f"SELECT some_function(level) FROM raw.logs WHERE {RANGE}",
        f"SELECT level FROM raw.logs WHERE {RANGE} UNION ALL SELECT level FROM raw.logs WHERE {RANGE}",
    ],
)
def test_whatever_may_depend_on_its_range_needs_a_query_for_each(sql: str) -> None:
    assert not Statement.parse(sql).ranges_at_once("raw.logs", "inserted_at")


def test_columns_that_are_read() -> None:
    known = ["time", "level", "msg", "inserted_at", "other"]
    assert Statement.parse(f"SELECT Level FROM raw.logs WHERE {RANGE}").columns_of(known) == ["level", "inserted_at"]
    assert Statement.parse(f"SELECT * FROM raw.logs WHERE {RANGE}").columns_of(known) == known


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1; DROP TABLE x", "not one SELECT"),
        ("DELETE FROM x", "not one SELECT"),
        ("SELECT FROM WHERE", "cannot be parsed at line 1"),
        ("SELECT * FROM raw.logs WHERE x < {end}", "does not use {begin}"),
    ],
)
def test_refused(sql: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        Statement.parse(sql)


def test_versions_and_functions_are_not_tables() -> None:
    for table in ("raw.logs VERSION AS OF 5", "range(5)"):
        with pytest.raises(BadValue, match="reads"):
            _ = Statement.parse(f"SELECT * FROM {table} WHERE {RANGE}").tables
