"""Templates of backfills: what they insert, and whether one pass over the source gives all batches.

Covers `engine/sql/range_binding.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.engine.sql.insertion import Insertion
from lakewarden.engine.sql.range_binding import RANGED
from lakewarden.errors import BadValue

PATTERN = "ORDER BY id LIMIT {batch_size}"


def insertion(sql: str, *checkpoint: str, **fields: Any) -> Insertion:
    return Insertion.parse(sql, ("shop",), checkpoint or ("id",), fields)


def one_pass(sql: str, *checkpoint: str) -> str:
    found = insertion(f"INSERT INTO {{db}}.t {sql}", *checkpoint)
    assert found.why_range_by_range() == ""
    return found.in_one_pass(view)


def view(name: str) -> str:
    return "rows" if name == RANGED else f"view_{name.replace('.', '_')}"


def test_what_it_inserts_into_and_reads() -> None:
    found = insertion("INSERT INTO {db}.t (a, b) SELECT s.a, o.b FROM {db}.s AS s JOIN {db}.o ON s.id = o.id")
    assert (found.target, found.columns) == ("shop.t", ("a", "b"))
    assert (found.tables, found.source) == (("shop.s", "shop.o"), "shop.s")
    with_query = insertion("WITH x AS (SELECT * FROM {db}.s) INSERT INTO {db}.t SELECT * FROM x")
    assert with_query.tables == ("shop.s",)


@pytest.mark.parametrize(
    ("where", "checkpoint"),
    [
        ("id > {checkpoint_id}", ("id",)),
        ("'{checkpoint_id}' < id", ("id",)),
        ("s.id > CAST('{checkpoint_id}' AS BIGINT)", ("id",)),
        ("id > TIMESTAMP '{checkpoint_id}'", ("id",)),
        ("NOT id <= {checkpoint_id}", ("id",)),
        ("(a, b) > ({checkpoint_a}, {checkpoint_b})", ("a", "b")),
        ("(a > {checkpoint_a} OR (a = {checkpoint_a} AND b > {checkpoint_b}))", ("a", "b")),
        ("a >= {checkpoint_a} AND (a > {checkpoint_a} OR b > {checkpoint_b})", ("a", "b")),
        ("{range_predicate}", ("id",)),
        ("id >= {checkpoint_id}", ("id",)),
        ("(id > {checkpoint_id} OR {checkpoint_id} IS NULL)", ("id",)),
        ("id > COALESCE({checkpoint_id}, 0)", ("id",)),
        ("id > {checkpoint_id} AND id <= {checkpoint_id} + {batch_size}", ("id",)),
        ("id BETWEEN '{checkpoint_id}' AND CAST('{checkpoint_id}' AS BIGINT) + {batch_size}", ("id",)),
        ("(a > {checkpoint_a} OR b > {checkpoint_b})", ("a", "b")),
    ],
)
def test_the_pattern_is_taken_out(where: str, checkpoint: tuple[str, ...]) -> None:
    text = one_pass(f"SELECT x FROM {{db}}.s WHERE {where} AND x = 1 {PATTERN}", *checkpoint)
    assert text in (
        "SELECT x, s.lw_range FROM rows AS s WHERE x = 1",
        "SELECT x, s.lw_range FROM rows AS s WHERE TRUE AND x = 1",
    )


@pytest.mark.parametrize(
    "where",
    [
        "a > {checkpoint_a} AND b > {checkpoint_b}",
        "b > {checkpoint_b} OR (b = {checkpoint_b} AND a > {checkpoint_a})",
        "a > {checkpoint_a} + 1",
        "a <> {checkpoint_a} + {batch_size}",
        "a > {checkpoint_a} + {batch_size}",
        "a > {checkpoint_a} AND a <= {checkpoint_a} + 1000",
        "TRY_CAST(a AS INT) > {checkpoint_a}",
        "o.a > {checkpoint_a}",
        "EXISTS (SELECT 1 FROM {db}.o WHERE o.a > {checkpoint_a})",
    ],
)
def test_conditions_that_could_leave_out_rows_are_refused(where: str) -> None:
    with pytest.raises(BadValue, match="could leave out rows"):
        insertion(f"INSERT INTO {{db}}.t SELECT x FROM {{db}}.s WHERE {where} {PATTERN}", "a", "b")


def test_values_of_the_checkpoint_may_be_selected() -> None:
    sql = "SELECT {checkpoint_id}, 'up from {checkpoint_id}', x FROM {db}.s WHERE id > {checkpoint_id} " + PATTERN
    found = insertion(f"INSERT INTO {{db}}.t {sql}")
    assert "selects values of the checkpoint" in found.why_range_by_range()
    assert found.query(view, {"checkpoint_id": "it's"}) == "SELECT 'it\\'s', 'up from it\\'s', x FROM rows AS s"


@pytest.mark.parametrize(
    ("select", "why"),
    [
        ("SELECT count(*) FROM {db}.s", "aggregates"),
        ("SELECT DISTINCT x FROM {db}.s", "groups"),
        ("SELECT row_number() OVER (ORDER BY x) FROM {db}.s", "aggregates"),
        ("SELECT x FROM {db}.s UNION ALL SELECT x FROM {db}.s", "several"),
        ("SELECT x FROM (SELECT x FROM {db}.s WHERE id > {checkpoint_id} LIMIT {batch_size})", "in a subquery"),
    ],
)
def test_what_needs_a_query_for_each_batch(select: str, why: str) -> None:
    found = insertion(f"INSERT INTO {{db}}.t {select}")
    assert why in found.why_range_by_range()
    assert "shop" not in found.query(view, {}) and "LIMIT" not in found.query(view, {})


@pytest.mark.parametrize(
    ("select", "problem"),
    [
        ("SELECT x FROM {db}.s WHERE id > {checkpoint_id} ORDER BY id LIMIT 1000", "by a number of its own"),
        ("SELECT x FROM (SELECT x FROM {db}.s LIMIT 5)", "by a number of its own"),
        ("SELECT x FROM {db}.s ORDER BY id LIMIT {batch_size} OFFSET 10", "by a number of its own"),
        ("SELECT x FROM {db}.s FULL JOIN {db}.o ON true", "full join"),
        ("SELECT x FROM {db}.s RIGHT JOIN {db}.o ON true", "right join"),
        ("SELECT x FROM {db}.o LEFT JOIN {db}.s ON true", "does not read shop.s after FROM"),
        ("SELECT x FROM {db}.s UNION ALL SELECT x FROM {db}.o", "does not read shop.s after FROM"),
        ("SELECT x FROM {db}.o WHERE x IN (SELECT x FROM {db}.s)", "does not read shop.s after FROM"),
        ("SELECT 1 FROM w JOIN w AS v ON true", "reads w more than once"),
        ("SELECT id, x FROM {db}.s AS s(x, id)", "names the columns of shop.s by their place"),
    ],
)
def test_what_would_leave_out_or_repeat_rows_is_refused(select: str, problem: str) -> None:
    named = "WITH w AS (SELECT * FROM {db}.s) " if "FROM w" in select else ""
    with pytest.raises(BadValue, match=problem):
        Insertion.parse(f"{named}INSERT INTO {{db}}.t {select}", ("shop",), ("id",), {}, ("shop.s",))


@pytest.mark.parametrize(
    ("select", "bound"),
    [
        (
            "SELECT {db}.s.x, p.x FROM {db}.s LEFT JOIN {db}.s AS p ON p.id = s.parent WHERE s.id > {checkpoint_id}",
            "SELECT s.x, p.x FROM rows AS s LEFT JOIN view_shop_s AS p ON p.id = s.parent",
        ),
        (
            "SELECT x FROM {db}.s WHERE x > (SELECT avg(x) FROM {db}.s LIMIT 1)",
            "SELECT x FROM rows AS s WHERE x > (SELECT AVG(x) FROM view_shop_s AS s LIMIT 1)",
        ),
        (
            "SELECT x FROM {db}.o JOIN {db}.s ON o.id = s.id",
            "SELECT x FROM view_shop_o AS o JOIN rows AS s ON o.id = s.id",
        ),
        (
            "SELECT x FROM {db}.s EXCEPT SELECT x FROM {db}.s WHERE bad",
            "SELECT x FROM rows AS s EXCEPT SELECT x FROM view_shop_s AS s WHERE bad",
        ),
        (
            "WITH w AS (SELECT * FROM {db}.s WHERE id > {checkpoint_id} LIMIT {batch_size}) SELECT 1 FROM w, w AS v",
            "WITH w AS (SELECT * FROM rows AS s) SELECT 1 FROM w CROSS JOIN w AS v",
        ),
    ],
)
def test_only_the_source_itself_stands_for_the_rows_of_a_range(select: str, bound: str) -> None:
    found = Insertion.parse(f"INSERT INTO {{db}}.t {select}", ("shop",), ("id",), {}, ("shop.s",))
    assert found.query(view, {}) == bound


@pytest.mark.parametrize(
    ("select", "read"),
    [
        ("SELECT id, count(*) AS x FROM {db}.s GROUP BY id", "id"),
        ("SELECT s.y.z FROM {db}.s WHERE `User_Id` > 1", "y user_id"),
        ("SELECT id FROM {db}.s JOIN {db}.o USING (x) WHERE {db}.s.y = 1", "id x y"),
        ("SELECT id FROM {db}.s WHERE x IN (SELECT * FROM {db}.o)", "id x"),
        ("SELECT user, current_price FROM {db}.s", "user current_price"),
        ("SELECT w.id FROM (SELECT * FROM {db}.s) AS w", "all"),
        ("SELECT struct(s.*), 1 FROM {db}.s", "all"),
        ("SELECT id FROM {db}.s NATURAL JOIN {db}.o", "all"),
    ],
)
def test_which_columns_of_the_source_are_read(select: str, read: str) -> None:
    known = ("id", "x", "y", "user", "user_id", "current_price")
    found = Insertion.parse(f"INSERT INTO {{db}}.t {select}", ("shop",), ("id",), {}, ("shop.s",))
    assert found.columns_read(known) == (known if read == "all" else tuple(read.split()))


def test_a_column_that_may_be_taken_for_a_function_is_read() -> None:
    found = Insertion.parse("INSERT INTO {db}.t SELECT current_date, session_user FROM {db}.s", ("shop",), ("id",), {})
    assert found.columns_read(("id", "current_date", "session_user")) == ("current_date", "session_user")


def test_stars_leave_the_number_out() -> None:
    text = one_pass("SELECT o.*, s.* FROM {db}.s JOIN {db}.o ON true")
    assert text.startswith("SELECT o.*, s.* EXCEPT (lw_range), s.lw_range FROM")
    assert one_pass("SELECT *, s.* FROM {db}.s") == (
        "SELECT * EXCEPT (lw_range), s.* EXCEPT (lw_range), s.lw_range FROM rows AS s"
    )


def test_aggregates_of_other_tables_do_not_matter() -> None:
    text = one_pass("SELECT s.x, (SELECT max(y) FROM {db}.o) FROM {db}.s WHERE id > {checkpoint_id}")
    assert text.endswith("FROM rows AS s")


def test_custom_fields_are_filled_also_in_quotes() -> None:
    sql = "INSERT INTO {db}.t SELECT '{who}', {who}, {n}, 'of {db}' FROM {db}.s WHERE at < TIMESTAMP '{cut}'"
    found = insertion(sql, who="O'Brien", n=5, cut="2026-01-01 00:00:00")
    assert found.query(lambda name: "v", {}) == (
        "SELECT 'O\\'Brien', 'O\\'Brien', 5, 'of shop' FROM v AS s WHERE at < CAST('2026-01-01 00:00:00' AS TIMESTAMP)"
    )


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM {db}.t", "not one INSERT"),
        ("INSERT INTO {db}.t SELECT 1; DROP TABLE {db}.t", "not one INSERT"),
        ("INSERT OVERWRITE {db}.t SELECT 1", "not one INSERT"),
        ("INSERT INTO {db}.t VALUES (1)", "something else"),
        ("INSERT INTO {db}.t PARTITION (d = 1) SELECT 1", "something else"),
        ("INSERT INTO {db}.t SELECT FROM", "cannot be parsed"),
        ("INSERT INTO {db}.t SELECT {chekpoint_id}", "{chekpoint_id} has no value"),
        ("INSERT INTO {db}.t SELECT `{who}` FROM {db}.s", "part of a name"),
    ],
)
def test_anything_else_is_refused(sql: str, problem: str) -> None:
    with pytest.raises(BadValue, match=problem):
        insertion(sql, who="x")
