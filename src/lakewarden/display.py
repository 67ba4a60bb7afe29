"""Values as text for people, and answers as HTML for notebooks.

The command line uses the same texts. Values of table rows are shown unchanged: they have no units or states.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from html import escape
from typing import Any, Protocol, TypeVar, get_args, get_type_hints, overload, runtime_checkable

from pydantic_core import to_json

from lakewarden.quantities import Unit, show_size

Item = TypeVar("Item")
NULL = "null"
_SHOWN = 100
"""Rows of a list that a notebook shows."""
_LISTED, _FEW, _LONG = 10, 2, 400
"""Items and characters of a value that people see; of more, the first few items and how many more there are."""


class Shown:
    """An answer that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return html_of(self)


class Series(Shown, Sequence[Item]):
    """An answer that is also a sequence of its items."""

    @abstractmethod
    def series(self) -> list[Item]: ...

    def __len__(self) -> int:
        return len(self.series())

    def __iter__(self) -> Iterator[Item]:
        return iter(self.series())

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        return self.series()[place]


@runtime_checkable
class Drawn(Protocol):
    """An answer that REST returns as a page or an image; in a terminal `__rich__` does the same.

    `--json`, and callers that accept `application/json`, get its fields as for any other answer.
    """

    @property
    def media_type(self) -> str: ...

    def drawn(self) -> bytes: ...


class Listing(list[Any]):
    """A list of answers that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return html_of(self)


def title(name: str) -> str:
    return name.replace("_", " ")


def show_value(value: Any, unit: str | None = None) -> str:
    """One value of an answer: counts with separators, sizes with a unit, times to the second."""
    if value is None:
        return ""
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes":
        return show_size(value)
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")[:19] + ("Z" if value.tzinfo else "")
    if isinstance(value, int):
        return str(value) if unit == "id" else f"{value:,}"
    if isinstance(value, list):
        whole = ", ".join(map(str, value))
        if len(value) <= _LISTED and len(whole) <= _LONG:
            return whole
        few = _FEW if len(whole) / len(value) <= _LONG / _LISTED else 1  # one, if each is long
        more = f" and {len(value) - few:,} more" if len(value) > few else ""
        return ", ".join(map(str, value[:few])) + more
    return str(value)


def show_as_is(value: Any) -> str:
    """One value of a row, unchanged: all digits, full times, nested values as JSON."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return json_bytes(value).decode() if isinstance(value, list | dict | tuple) else str(value)


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Valid JSON for all values of tables: bytes as hexadecimal, NaN and the infinities as text."""
    return to_json(value, indent=indent, bytes_mode="hex", inf_nan_mode="strings", fallback=str)


def columns_of(rows: Sequence[Any]) -> list[str]:
    """The column names of rows, which are mappings or dataclasses."""
    if dataclasses.is_dataclass(rows[0]):
        return [field.name for field in dataclasses.fields(rows[0])]
    return list(dict.fromkeys(key for row in rows for key in row))


def value_of(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def units_of(kind: type) -> dict[str, str]:
    """The units of fields, bytes or ids, from their annotations."""
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = get_type_hints(kind, include_extras=True)
    return {name: unit for name, hint in hints.items() if (unit := _unit(hint))}


def is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict | tuple) and not value)


def html_of(answer: Any) -> str:
    """An answer as HTML: a list as a table, any other value as its fields, with nested ones below."""
    if isinstance(answer, list):
        return _rows(answer) if answer else "<p>None.</p>"
    units = units_of(type(answer))
    facts = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
    nested = {name: value for name, value in facts.items() if _is_nested(value)}
    plain = {name: value for name, value in facts.items() if name not in nested and not is_empty(value)}
    parts = [_facts((title(name), show_value(value, units.get(name))) for name, value in plain.items())]
    for name, value in nested.items():
        inner = _facts((str(k), str(v)) for k, v in value.items()) if isinstance(value, Mapping) else _rows(value)
        parts.append(f"<p><b>{escape(title(name))}</b></p>{inner}")
    return "".join(parts)


def table_html(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """An HTML table; all texts are escaped."""
    cells = "".join(f"<th>{escape(text)}</th>" for text in head)
    lines = ("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _rows(rows: Sequence[Any]) -> str:
    names, units, as_is = columns_of(rows), units_of(type(rows[0])), isinstance(rows[0], Mapping)
    shown = [n for n in names if as_is or any(not is_empty(value_of(row, n)) for row in rows)]

    def cell(row: Any, name: str) -> str:
        value = value_of(row, name)
        return show_as_is(value) if as_is else show_value(value, units.get(name))

    table = table_html(
        [name if as_is else title(name) for name in shown],
        ([cell(row, name) for name in shown] for row in rows[:_SHOWN]),
    )
    return table + (f"<p>{_SHOWN:,} of {len(rows):,}</p>" if len(rows) > _SHOWN else "")


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def _unit(hint: Any) -> str | None:
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Unit):
            return mark.name
    return next((found for arg in get_args(hint) if (found := _unit(arg))), None)


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return (
        isinstance(value, list) and bool(value) and (dataclasses.is_dataclass(value[0]) or isinstance(value[0], dict))
    )
