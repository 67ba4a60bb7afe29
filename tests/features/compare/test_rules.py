"""Rules: what they can say, and that they can do nothing else."""

from __future__ import annotations

import pytest

from lakewarden.errors import BadValue
from lakewarden.features.compare.rules import Rule

NAMES = ("rows_from", "rows_removed")
VALUES = {"rows_from": 100, "rows_removed": 11}
FUNCTIONS = {"changed": lambda column: {"amount": 3, "a.b": 5}[column]}


def holds(text: str) -> bool:
    return Rule.parse(text, NAMES, FUNCTIONS).holds(VALUES, FUNCTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "rows_removed > 0.1 * rows_from",
        "rows_removed == 11 and not rows_from < 100",
        "rows_removed > 99 or changed(amount) >= 3",
        "changed('a.b') - 1 == 4",
        "0 < rows_removed <= 11",
        "-rows_removed + 12 == 1",
        "rows_removed / (rows_from - 100) > 1000000",
    ],
)
def test_true(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize("text", ["rows_removed > rows_from", "0 / (rows_from - 100) > 0", "not rows_from"])
def test_false(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rows_removed >",
        "rows_removd > 1",
        "__import__('os')",
        "().__class__",
        "rows_from.real > 1",
        "changed(amount).real",
        "changed(changed(amount)) > 1",
        "changed(column=amount)",
        "changed(*rows_from)",
        "max(rows_from, 1)",
        "rows_from ** 99999999",
        "rows_from << 9",
        "[1][0]",
        "'text' > 1",
        "lambda: 1",
        "(x := 1)",
        "1 if rows_from else 2",
        "f'{rows_from}'",
        "rows_from > 1; rows_from",
        "rows_from is not 1",
        "(" * 400 + ")" * 400,
        "-" * 990 + "1",
        "1" * 2000,
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(BadValue):
        Rule.parse(text, NAMES, FUNCTIONS)


def test_a_typing_error_gets_a_hint() -> None:
    with pytest.raises(BadValue, match="rows_removed") as raised:
        Rule.parse("rows_removd > 1", NAMES, FUNCTIONS)
    assert "rows_removed" in str(raised.value.hint)
