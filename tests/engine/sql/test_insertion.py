"""Templates of backfills: what they insert, and whether one pass over the source gives all batches."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.engine.sql.insertion import Insertion
from lakewarden.errors import BadValue

PATTERN = "ORDER BY id LIMIT {batch_size}"


def insertion(sql: str, *checkpoint: str, **fields: Any) -> Insertion:
    return Insertion.parse(sql, ("shop",), checkpoint or ("id",), fields)


def one_pass(sql: str, *checkpoint: str) -> str:
    found = insertion(f"INSERT INTO {{db}}.t {sql}", *checkpoint)
    assert found.why_range_by_range("shop.s") == ""
    return found.in_one_pass(lambda name: f"view_{name.replace('.', '_')}")


def test_what_it_inserts_into_and_reads() -> None:
    found = insertion("INSERT INTO {db}.t (a, b) SELECT s.a, o.b FROM {db}.s AS s JOIN {db}.o ON s.id = o.id")
    assert (found.target, found.columns) == ("shop.t", ("a", "b"))
    assert (found.tables, found.first_table) == (("shop.s", "shop.o"), "shop.s")
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
    ],
)
def test_the_pattern_is_taken_out(where: str, checkpoint: tuple[str, ...]) -> None:
    text = one_pass(f"SELECT x FROM {{db}}.s WHERE {where} AND x = 1 {PATTERN}", *checkpoint)
    assert text in (
        "SELECT x, s.lw_range FROM view_shop_s AS s WHERE x = 1",
        "SELECT x, s.lw_range FROM view_shop_s AS s WHERE TRUE AND x = 1",
    )


@pytest.mark.parametrize(
    "where",
    [
        "a > {checkpoint_a} AND b > {checkpoint_b}",  # which leaves rows out
        "a > {checkpoint_a} OR b > {checkpoint_b}",
        "a >= {checkpoint_a}",
        "b > {checkpoint_b} OR (b = {checkpoint_b} AND a > {checkpoint_a})",
        "a > {checkpoint_a} + 1",
    ],
)
def test_other_conditions_are_left_in_and_filled(where: str) -> None:
    found = insertion(f"INSERT INTO {{db}}.t SELECT x FROM {{db}}.s WHERE {where} {PATTERN}", "a", "b")
    assert "not known to mean" in found.why_range_by_range("shop.s")
    values = {"checkpoint_a": "it's", "checkpoint_b": 2, "batch_size": 10}
    text = found.query(lambda name: "v", values)
    assert "'it\\'s'" in text or "b > 2" in text
    assert "LIMIT" not in text


@pytest.mark.parametrize(
    ("select", "why"),
    [
        ("SELECT count(*) FROM {db}.s", "aggregates"),
        ("SELECT DISTINCT x FROM {db}.s", "groups"),
        ("SELECT row_number() OVER (ORDER BY x) FROM {db}.s", "aggregates"),
        ("SELECT x FROM {db}.s LIMIT 5", "limits"),
        ("SELECT x FROM {db}.o LEFT JOIN {db}.s ON true", "right after FROM"),
        ("SELECT s.x FROM {db}.s JOIN {db}.s AS other ON true", "once"),
        ("SELECT s.x FROM {db}.s FULL JOIN {db}.o ON true", "full join"),
        ("SELECT x FROM {db}.s UNION ALL SELECT x FROM {db}.s", "several"),
    ],
)
def test_what_needs_a_query_for_each_batch(select: str, why: str) -> None:
    assert why in insertion(f"INSERT INTO {{db}}.t {select}").why_range_by_range("shop.s")


def test_stars_leave_the_number_out() -> None:
    assert one_pass("SELECT *, s.* FROM {db}.s") == (
        "SELECT * EXCEPT (lw_range), s.* EXCEPT (lw_range), s.lw_range FROM view_shop_s AS s"
    )


def test_aggregates_of_other_tables_do_not_matter() -> None:
    text = one_pass("SELECT s.x, (SELECT max(y) FROM {db}.o) FROM {db}.s WHERE id > {checkpoint_id}")
    assert text.endswith("FROM view_shop_s AS s")


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
