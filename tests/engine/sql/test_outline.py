"""Statements taken apart: when two select the same rows, and compute a column in the same way."""

from __future__ import annotations

import pytest

from lakewarden.engine.sql.outline import Outline, outline
from lakewarden.engine.sql.statement import Statement

_TAIL = "FROM raw.logs WHERE inserted_at >= {begin} AND inserted_at < {end}"


def _of(select: str, *columns: str, tail: str = _TAIL) -> Outline | None:
    return outline(Statement(f"SELECT {select} {tail}"), columns)


def _rows(select: str, *columns: str, tail: str = _TAIL) -> str:
    found = _of(select, *columns, tail=tail)
    assert found is not None
    return found.rows


def test_case_quotes_spaces_and_comments_do_not_matter() -> None:
    one = _of("level, upper( msg ) AS shout", "level", "shout")
    other = _of("`Level`, -- how bad\n UPPER(MSG) shout", "level", "shout", tail=_TAIL.replace("raw.logs", "Raw.LOGS"))
    assert one == other and one is not None


def test_a_cast_tells_what_it_casts() -> None:
    found = _of("CAST(level AS BIGINT) AS level, msg", "level", "msg")
    assert found is not None and found.values["level"].uncast == "`level`" and found.values["msg"].uncast is None
    tried = _of("TRY_CAST(level AS BIGINT) AS level, msg", "level", "msg")
    assert tried is not None and tried.values["level"].text != found.values["level"].text


def test_a_star_stands_for_the_columns_that_are_not_named() -> None:
    assert _of("*", "level", "msg") == _of("level, msg", "level", "msg")
    found = _of("*, 1 AS one", "level", "one")
    assert found is not None and found.values["level"].text == "`level`" and found.values["one"].text == "1"
    assert _of("*", "level", tail="FROM raw.logs JOIN raw.more USING (id)") is None
    assert _of("level", "level", "msg") is None  # a column that nothing gives


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 AS a", "1 AS a, count(*) AS n"),
        ("1 AS a", "1 AS a, explode(tags) AS n"),
        ("1 AS a", "1 AS a, own_function(level) AS n"),
        ("1 AS a", "1 AS a, json_tuple(msg, 'x') AS n"),
    ],
)
def test_a_column_that_may_change_how_many_rows_there_are(one: str, other: str) -> None:
    assert _rows(one, "a") != _rows(other, "a", "n")


def test_columns_that_change_no_rows() -> None:
    plain = _rows("level", "level")
    assert plain == _rows("level, upper(msg) AS n, max(level) OVER (PARTITION BY msg) AS top", "level", "n", "top")
    assert plain == _rows("level, (SELECT max(x) FROM raw.more) AS n", "level", "n")
    assert plain != _rows("level", "level", tail=f"{_TAIL} AND level > 3")
    assert _rows("count(*) AS n", "n") == _rows("count(*) AS n, max(level) AS top", "n", "top")


@pytest.mark.parametrize(
    ("select", "tail"),
    [
        ("DISTINCT level AS x", _TAIL),
        ("level AS x", f"{_TAIL} GROUP BY 1"),
        ("level AS x", f"{_TAIL} GROUP BY ALL"),
        ("level AS x", f"{_TAIL} ORDER BY 1 LIMIT 10"),
        ("level % 2 AS x", f"{_TAIL} GROUP BY x"),
        ("level + 1 AS x, x * 2 AS y", _TAIL),
        ("count(*)", _TAIL),
        ("level AS x", f"{_TAIL} UNION ALL SELECT 1"),
    ],
)
def test_where_columns_do_not_stand_for_themselves(select: str, tail: str) -> None:
    assert _of(select, "x", tail=tail) is None
