"""Values from files: which column, whether there is a header, what separates columns; and errors that name the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.doors.cli.values import ValueInput
from lakewarden.errors import BadValue

SECRET = "secret@example.org"


def read(
    tmp_path: Path, content: str, name: str = "ids.csv", fits: Callable[[str], bool] = lambda text: True, **said: Any
) -> tuple[list[str], list[str]]:
    file = tmp_path / name
    file.write_bytes(content.encode())
    found = ValueInput([], file, **said).read({"email", "user.email"}, fits)
    return list(found.values), [note.removeprefix(f"{file}: ") for note in found.notes]


@pytest.mark.parametrize(
    ("content", "values", "said"),
    [
        ("Email,why\na,x\nb,y\n", ["a", "b"], ["a header"]),
        ("name,EMAIL\nAnn,a\nBob,b\n", ["a", "b"], ["a header"]),
        ("a,x\nb,y\n", ["a", "b"], []),
        ("a;x\nb;y\n", ["a", "b"], ["semicolons"]),
        ("why;email\nx, or y;a\nz, or w;b\n", ["a", "b"], ["semicolons", "a header"]),
        ("a\tx\nb\ty\n", ["a", "b"], ["tabs"]),
        ('\ufeff"a;x"\r\nb\r\n\r\n', ["a;x", "b"], []),
        ("Name,E-Mail\nx,a\ny,b\n", ["a", "b"], ["a header, because it names the column E-Mail"]),
        ("email\n", [], None),
    ],
)
def test_columns_and_headers_are_found(tmp_path: Path, content: str, values: list[str], said: list[str] | None) -> None:
    if said is None:
        with pytest.raises(BadValue, match="contains no values"):
            read(tmp_path, content)
        return
    found, notes = read(tmp_path, content)
    assert found == values and len(notes) == len(said)
    assert all(word in note for word, note in zip(said, notes, strict=True))


def test_a_first_line_of_another_type_is_a_header_and_not_shown(tmp_path: Path) -> None:
    found, [note] = read(tmp_path, f"{SECRET}\n12\n13\n", fits=str.isdigit)
    assert found == ["12", "13"] and "read as a header" in note and SECRET not in note
    assert read(tmp_path, f"{SECRET}\n12\n", fits=str.isdigit, header=False) == ([SECRET, "12"], [])
    assert read(tmp_path, "12a\n13b\n14\n", fits=str.isdigit) == (["12a", "13b", "14"], [])  # a mistake, not a header


def test_what_is_said_counts(tmp_path: Path) -> None:
    content = "email,other\na,b\n"
    assert read(tmp_path, content, header=False) == (["email", "a"], [])
    assert read(tmp_path, content, column="other") == (["b"], [])
    assert read(tmp_path, content, column="2")[0] == ["b"]
    assert read(tmp_path, "x,y\na,b\n", header=True) == (["a"], [])
    assert read(tmp_path, "email\na b\n", "lines.txt")[0] == ["a b"]
    assert read(tmp_path, '{"why": "x", "email": "a"}\n"b"\n3\n', "ids.jsonl")[0] == ["a", "b", "3"]
    assert read(tmp_path, '{"why": "x", "other": "a"}\n', "ids.jsonl", column="other")[0] == ["a"]


@pytest.mark.parametrize(
    ("name", "content", "said", "error"),
    [
        ("ids.csv", f"a,b\n{SECRET}\n", {"column": "2"}, "ids.csv, line 2 has no column 2"),
        ("ids.csv", f"a,b\n{SECRET},x\n", {"column": "who"}, "ids.csv, line 1 has no column who"),
        ("ids.csv", f"{SECRET}\n", {"column": "0"}, "column: 0 is not a column"),
        ("ids.jsonl", f'"a"\n\n{{"email": "{SECRET}"\n', {}, "ids.jsonl, line 3 is not JSON"),
        ("ids.jsonl", f'{{"email": ["{SECRET}"]}}\n', {}, "ids.jsonl, line 1 is neither a text nor a number"),
        ("ids.jsonl", f'{{"email": "{SECRET}"}}\n', {"column": "who"}, "ids.jsonl, line 1 has no field who"),
    ],
)
def test_errors_name_the_file_and_the_line_and_no_value(
    tmp_path: Path, name: str, content: str, said: dict[str, Any], error: str
) -> None:
    with pytest.raises(BadValue, match=error) as caught:
        read(tmp_path, content, name, **said)
    assert SECRET not in f"{caught.value} {caught.value.hint}"


def test_bytes_that_are_no_text_are_found_by_their_line(tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_bytes(b"a\nb\n\xff\n")
    with pytest.raises(BadValue, match="ids.csv, line 3 is not UTF-8"):
        ValueInput([], tmp_path / "ids.csv").read((), lambda text: True)
