"""Paths in texts tell no value of a key, whoever wrote them and whatever is in the value."""

from __future__ import annotations

import pytest

from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import BrokenTable

VEIL = Redaction(frozenset({"name", "first_name"}))
DATA = "s3://lake/people/data"


@pytest.mark.parametrize(
    "value",
    [
        "Jane",
        "Jane%20Doe",
        "Jane Doe",
        "Jane van der Doe",
        "o'brien",
        "o' brien",
        '"Jane"',
        "a=b",
        "a, b; (c)",
        "é ñ",
        "",
    ],
)
def test_a_value_is_hidden_whole(value: str) -> None:
    path = f"{DATA}/name={value}/00.parquet"
    hidden = f"{DATA}/name=*/00.parquet"
    assert VEIL.path(path) == hidden
    for text in ("the file {} is not there", "'{}' cannot be read", '{{"path": "{}"}}', "{}", "{}\nin another line"):
        assert VEIL.text(text.format(path)) == text.format(hidden)


def test_several_paths_in_one_text() -> None:
    told = f"{DATA}/name=Jane Doe/a.parquet and {DATA}/first_name=Jo Ann/name=o'brien/b.parquet differ"
    assert VEIL.text(told) == f"{DATA}/name=*/a.parquet and {DATA}/first_name=*/name=*/b.parquet differ"


@pytest.mark.parametrize(
    ("told", "hidden"),
    [
        (f"nothing is in {DATA}/name=Jane Doe", f"nothing is in {DATA}/name=*"),
        (f"'{DATA}/name=o'brien' is empty\nLook at it.", f"'{DATA}/name=*\nLook at it."),
        (f"{DATA}/name=Jane Doe and then a/b", f"{DATA}/name=*/b"),
        (f"{DATA}/name=Jane Doe, {DATA}/name=John Doe/x", f"{DATA}/name=*//lake/people/data/name=*/x"),
    ],
)
def test_rather_too_much_is_hidden(told: str, hidden: str) -> None:
    assert VEIL.text(told) == hidden


@pytest.mark.parametrize("told", [f"{DATA}/surname=Jane Doe/x.parquet", "name=Jane is a column", f"{DATA}/00.parquet"])
def test_what_is_no_partition_of_a_key_stays(told: str) -> None:
    assert VEIL.text(told) == told
    assert Redaction(frozenset()).text(f"{DATA}/name=Jane/x") == f"{DATA}/name=Jane/x"


def test_errors_tell_nothing_in_any_of_their_words() -> None:
    path = f"{DATA}/name=Jane Doe/x.parquet"
    with pytest.raises(BrokenTable) as caught, VEIL.of_errors():
        raise BrokenTable(f"{path} is not there", f"Restore {path}.")
    assert "Doe" not in f"{caught.value} {caught.value.args} {caught.value.document()}"
    assert caught.value.message == f"{DATA}/name=*/x.parquet is not there"
