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


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT level, upper(msg) AS m FROM raw.logs WHERE {RANGE} AND level > 2",
        "SELECT l.level FROM raw.logs l WHERE l.inserted_at >= '{begin}' AND l.inserted_at < '{end}'",
    ],
)
def test_row_by_row_one_pass_does(sql: str) -> None:
    text = Statement.parse(sql).in_one_pass("raw.logs", "inserted_at", view)
    assert text is not None and "inserted_at AS lw_insert_time" in text


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT level, count(*) FROM raw.logs WHERE {RANGE} GROUP BY level",
        f"SELECT DISTINCT level FROM raw.logs WHERE {RANGE}",
        f"SELECT level FROM raw.logs WHERE {RANGE} LIMIT 5",
        f"SELECT row_number() OVER (ORDER BY level) FROM raw.logs WHERE {RANGE}",
        f"SELECT a.level FROM raw.logs a JOIN raw.logs b ON a.level = b.level WHERE a.{RANGE}",
        f"SELECT level FROM raw.logs WHERE {RANGE} OR level = 1",
        f"SELECT level, {{begin}} AS b FROM raw.logs WHERE {RANGE}",
        "SELECT level FROM raw.logs WHERE inserted_at > {begin} AND inserted_at < {end}",
        "SELECT level FROM raw.logs WHERE time >= {begin} AND time < {end}",
        f"SELECT level FROM raw.logs WHERE {RANGE} AND level IN (SELECT level FROM raw.logs)",
        f"SELECT explode(levels) FROM raw.logs WHERE {RANGE}",
        f"SELECT rand() FROM raw.logs WHERE {RANGE}",
        f"SELECT some_function(level) FROM raw.logs WHERE {RANGE}",
        f"SELECT level FROM raw.logs WHERE {RANGE} UNION ALL SELECT level FROM raw.logs WHERE {RANGE}",
    ],
)
def test_whatever_may_depend_on_its_range_needs_a_query_for_each(sql: str) -> None:
    assert Statement.parse(sql).in_one_pass("raw.logs", "inserted_at", view) is None


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
