"""Column widths of tables on a terminal, and which columns are left out if it is narrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

_BETWEEN = 3  # between two columns
_BROKEN_AT = 24  # words that are longer than this are broken anywhere


def least_width(name: str, values: Sequence[Any], cells: Sequence[Text]) -> int:
    """The minimum width of a column: numbers, ids and names are never broken; times and sentences only at spaces."""
    words = name.split()
    breakable = any(isinstance(value, list | dict | datetime) or " " in str(value) for value in values)
    if breakable:
        words += [word for cell in cells for word in cell.plain.replace(",", " ").split()]
        return min(max(map(len, words)), _BROKEN_AT)
    return max([cell.cell_len for cell in cells] + [len(word) for word in words])


def fitting(
    least: Mapping[str, int], cells: Mapping[str, Sequence[Text]], dispensable: Sequence[str], width: int
) -> list[str] | None:
    """The columns that fit next to each other; none if not even the indispensable ones fit.

    As few as possible are left out, but sentences are not squeezed to keep a dispensable column.
    """
    readable = {name: max(least[name], min(_wanted(name, cells[name]), _BROKEN_AT)) for name in least}
    for count in range(len(dispensable) + 1):
        kept = [name for name in least if name not in dispensable[:count]]
        needed = least if count == len(dispensable) else readable
        if sum(needed[name] + _BETWEEN for name in kept) <= width:
            return kept
    return None


def widths(least: Mapping[str, int], cells: Mapping[str, Sequence[Text]], width: int) -> dict[str, int]:
    """The width of each column: its minimum, and a share of the remaining space."""
    needs = {name: max(_wanted(name, column) - least[name], 0) for name, column in cells.items()}
    space, shared = width - sum(least[name] + _BETWEEN for name in cells), dict(least)
    for place, name in enumerate(sorted(needs, key=lambda name: needs[name])):
        more = min(needs[name], space // (len(needs) - place))
        shared[name] += more
        space -= more
    return shared


def _wanted(name: str, cells: Sequence[Text]) -> int:
    return max([len(name)] + [cell.cell_len for cell in cells])
