"""Placeholders of SQL templates."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakewarden.engine.sql.placeholders import fill, placeholders, split, written
from lakewarden.errors import BadValue


def test_placeholders_are_found_in_code_and_quotes_but_not_in_comments() -> None:
    text = "SELECT {a}, '{b} it''s {c}' -- {d}\n, /* {e} */ \"{f}\", {a}, {not one}"
    assert placeholders(text) == ["a", "b", "c", "f"]
    assert fill("a -- {x}\n'{x}' {x}", lambda name, quote: f"<{quote}{name}>") == "a  \n'<'x>' <x>"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "true"),
        (5, "5"),
        ("it's", "'it\\'s'"),
        (Decimal("1.50"), "1.50BD"),
        (date(2026, 1, 2), "DATE '2026-01-02'"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "TIMESTAMP '2026-01-02 03:00:00'"),
        (datetime(2026, 1, 2, 3), "TIMESTAMP_NTZ '2026-01-02 03:00:00'"),
        (b"\x00a", "X'0061'"),
        ([1, "x"], "1, 'x'"),
    ],
)
def test_values_are_literals_of_their_type(value: object, literal: str) -> None:
    assert written(value) == literal


def test_text_within_quotes_cannot_end_them() -> None:
    assert written('it\'s "x" \\', "'") == 'it\\\'s \\"x\\" \\\\'
    with pytest.raises(BadValue, match="part of a name"):
        written("x", "`")
    with pytest.raises(BadValue, match="cannot be an SQL literal"):
        written({"a": 1})


def test_statements_end_at_semicolons_outside_of_quotes() -> None:
    assert split('a \';\' b; c "\\";" `;`;\n;') == ["a ';' b", 'c "\\";" `;`']
