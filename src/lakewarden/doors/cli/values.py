"""Reads values from stdin or from a file of lines, CSV or JSON lines. Values are never printed.

The key determines the column of a CSV file and whether its first line is a header, so a file is read only when the
request knows its key. Errors name the file and the line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path

from lakewarden.errors import BadValue
from lakewarden.lifecycle.request import ReadValues

_STDIN = "-"
_NOTHING = "Nothing was registered. Values are not shown."
_DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": ""}  # in the order in which they are tried
_SAMPLE = 20  # lines from which the delimiter is detected
Row = tuple[int, list[str]]  # line number and cells


@dataclass(frozen=True)
class ValueInput:
    """The options of the command line about the source of values."""

    typed: Sequence[str]
    file: Path | None = None
    header: bool | None = None
    column: str | None = None

    def read(self, names: Collection[str], fits: Callable[[str], bool]) -> ReadValues:
        """The given values, with stdin in place of `-`, followed by those of the file.

        `names` are possible column names in a header; `fits` checks whether a text has the key's type.
        """
        typed = [value for each in self.typed for value in (_lines(sys.stdin) if each == _STDIN else [each])]
        if self.file is None:
            return ReadValues(typed)
        with_lines, notes = self._of_file(self.file, {_name(name) for name in names}, fits)
        if not with_lines:
            raise BadValue(f"{self.file} contains no values", "Nothing was registered.")
        places = [f"{self.file}, line {line}" for line, _ in with_lines]
        return ReadValues([*typed, *(value for _, value in with_lines)], len(typed), places, notes)

    def _of_file(
        self, file: Path, names: Collection[str], fits: Callable[[str], bool]
    ) -> tuple[list[tuple[int, str]], list[str]]:
        suffix, lines = file.suffix.lower(), list(StringIO(_text(file), newline=""))
        if suffix in (".jsonl", ".ndjson"):
            return list(self._of_json(file, lines, names)), []
        delimiter = _delimiter(lines, names) if suffix in (".csv", ".tsv") else None
        rows = _rows(file, lines, delimiter) if delimiter else [(n, [v]) for n, v in _numbered(lines)]
        place, has_header, notes = self._layout(file, rows, names, fits)
        if delimiter and _DELIMITERS[delimiter]:
            notes = [f"{file}: columns are separated by {_DELIMITERS[delimiter]}", *notes]
        found = [(line, _cell(file, line, row, place)) for line, row in (rows[1:] if has_header else rows)]
        return [(line, value) for line, value in found if value], notes

    def _layout(
        self, file: Path, rows: Sequence[Row], names: Collection[str], fits: Callable[[str], bool]
    ) -> tuple[int, bool, list[str]]:
        """The index of the column, whether the first line is a header, and notes."""
        first = [_name(cell) for cell in rows[0][1]] if rows else []
        if self.column is not None and not self.column.isdigit():
            if _name(self.column) not in first or self.header is False:
                raise BadValue(
                    f"{file}, line 1 has no column {self.column}", f"{_NOTHING} --column also takes a number."
                )
            return first.index(_name(self.column)), True, []
        named = next((place for place, cell in enumerate(first) if cell in names), None)
        place = int(self.column) - 1 if self.column is not None else named or 0
        if place < 0:
            raise BadValue("column: 0 is not a column", "The first column is 1.")
        if self.header is not None:
            return (place if self.header or self.column else 0), self.header, []
        if named is not None:
            note = f"the first line is a header, because it names the column {rows[0][1][named].strip()}"
            return place, True, [f"{file}: {note}"]
        if len(rows) > 1 and not fits(_cell(file, *rows[0], place)) and fits(_cell(file, *rows[1], place)):
            note = "the first line was read as a header: it is not of the key's type; --no-header reads it as a value"
            return place, True, [f"{file}: {note}"]
        return place, False, []

    def _of_json(self, file: Path, lines: Iterable[str], names: Collection[str]) -> Iterator[tuple[int, str]]:
        """JSON texts or numbers; of an object the field --column, or the one named like the key, or the first."""
        for number, line in _numbered(lines):
            try:
                found = json.loads(line)
            except ValueError:
                raise BadValue(f"{file}, line {number} is not JSON", _NOTHING) from None
            if isinstance(found, dict) and found:
                chosen = [name for name in found if name == self.column or (not self.column and _name(name) in names)]
                if self.column and not chosen:
                    raise BadValue(f"{file}, line {number} has no field {self.column}", _NOTHING)
                found = found[chosen[0]] if chosen else next(iter(found.values()))
            if isinstance(found, bool) or not isinstance(found, str | int | float):
                raise BadValue(f"{file}, line {number} is neither a text nor a number", _NOTHING)
            yield number, str(found)


def _name(cell: str) -> str:
    """A column's name for comparison: only letters and digits, without case, so that E-Mail matches email."""
    return "".join(filter(str.isalnum, cell)).casefold()


def _text(file: Path) -> str:
    """The content of the file or of stdin; an error names the line that is not text."""
    try:
        content = sys.stdin.buffer.read() if str(file) == _STDIN else file.read_bytes()
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadValue(f"{file}, line {line} is not UTF-8 text", "Nothing was registered.") from None
    except OSError as error:
        raise BadValue(f"{file} cannot be read: {error.strerror}", "Nothing was registered.") from None


def _delimiter(lines: Sequence[str], names: Collection[str]) -> str:
    """The delimiter that occurs equally often in all first lines, preferably one that yields a header with the key."""
    sample = list(islice((line for line in lines if line.strip()), _SAMPLE))
    even = []
    for delimiter in _DELIMITERS:
        rows = list(csv.reader(sample, delimiter=delimiter))
        if rows and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows):
            even.append((delimiter, any(_name(cell) in names for cell in rows[0])))
    naming = [delimiter for delimiter, names_key in even if names_key]
    return next(iter([*naming, *(delimiter for delimiter, _ in even)]), ",")


def _rows(file: Path, lines: Sequence[str], delimiter: str) -> list[Row]:
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        return [(reader.line_num, row) for row in reader if any(row)]
    except csv.Error:
        raise BadValue(f"{file}, line {reader.line_num} cannot be read as CSV", "Nothing was registered.") from None


def _cell(file: Path, line: int, row: Sequence[str], place: int) -> str:
    if place >= len(row):
        raise BadValue(f"{file}, line {line} has no column {place + 1}", _NOTHING)
    return row[place]


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, value) for number, line in enumerate(lines, start=1) if (value := line.rstrip("\r\n")).strip())


def _lines(lines: Iterable[str]) -> list[str]:
    return [value for line in lines if (value := line.rstrip("\r\n"))]
