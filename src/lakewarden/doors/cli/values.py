"""Values that are read rather than typed: from stdin, or a file of lines, CSV or JSON lines. None is ever shown."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakewarden.errors import BadValue

_STDIN = "-"


def read_values(said: Sequence[str], file: Path | None) -> list[str]:
    """The values that were typed, with those read in place of a `-`, and those of a file after them."""
    values = [value for each in said for value in (_lines(sys.stdin) if each == _STDIN else [each])]
    if file is None:
        return values
    found = _read(file)
    if not found:
        raise BadValue(f"{file} holds no values", "Nothing was registered.")
    return values + found


def _read(file: Path) -> list[str]:
    if str(file) == _STDIN:
        return _lines(sys.stdin)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            if file.suffix.lower() == ".csv":
                return [row[0] for row in csv.reader(lines) if row and row[0]]
            if file.suffix.lower() in (".jsonl", ".ndjson"):
                return [_of_json(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
            return _lines(lines)
    except UnicodeDecodeError:
        raise BadValue(f"{file} is not UTF-8 text", "Nothing was registered.") from None
    except csv.Error:
        raise BadValue(f"{file} cannot be read as CSV", "Nothing was registered.") from None
    except OSError as error:
        raise BadValue(f"{file} cannot be read: {error.strerror}", "Nothing was registered.") from None


def _lines(lines: Iterable[str]) -> list[str]:
    return [value for line in lines if (value := line.rstrip("\r\n"))]


def _of_json(line: str, number: int) -> str:
    """A JSON text or number, or the first field of an object."""
    try:
        found = json.loads(line)
    except ValueError:
        raise BadValue(f"line {number} is not JSON", "Nothing was registered. Values are not shown.") from None
    if isinstance(found, dict) and found:
        found = next(iter(found.values()))
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise BadValue(f"line {number} holds no text or number", "Nothing was registered. Values are not shown.")
    return str(found)
