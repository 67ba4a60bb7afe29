"""Where nouns keep values of rows: in tables beside a table, and in columns of their own in tables made of others.

A noun declares them in its package: `SIDE_TABLES = {suffix: column}` and `OWN_COLUMNS = (column,)`. An erasure request
for the table, or for one that it is made of, covers them too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from lakewarden import features


def is_beside(table: str) -> bool:
    """Whether a name is that of a table beside another."""
    return table.rstrip('"`').endswith(tuple(side_tables()))


def is_kept(table: str, column: str) -> bool:
    """Whether a noun keeps values of other tables' rows in a column."""
    return is_beside(table) or column in own_columns()


@cache
def side_tables() -> dict[str, str]:
    """The column with values of rows, by suffix of the table. It has a value, or a tuple of values as JSON."""
    return {suffix: column for some in _declared("SIDE_TABLES") for suffix, column in some.items()}


@cache
def own_columns() -> frozenset[str]:
    """The columns with values of rows that nouns add to the tables they write."""
    return frozenset(column for some in _declared("OWN_COLUMNS") for column in some)


def _declared(name: str) -> list[Any]:
    modules = (import_module(f"{features.__name__}.{noun.replace('-', '_')}") for noun in features.NOUNS)
    return [getattr(module, name) for module in modules if hasattr(module, name)]
