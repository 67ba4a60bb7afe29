"""The tables that nouns keep beside a table, under its name with a suffix, and their columns with values of rows.

A noun declares them in its package: `SIDE_TABLES = {suffix: column}`. An erasure request for the table, or for one that
it is made of, covers them too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from lakewarden import features


def is_beside(table: str) -> bool:
    """Whether a name is that of a table beside another."""
    return table.rstrip('"`').endswith(tuple(side_tables()))


@cache
def side_tables() -> dict[str, str]:
    """The column with values of rows, by suffix of the table. It has a value, or a tuple of values as JSON."""
    modules = (import_module(f"{features.__name__}.{noun.replace('-', '_')}") for noun in features.NOUNS)
    declared = [getattr(module, "SIDE_TABLES", {}) for module in modules]
    return {suffix: column for some in declared for suffix, column in some.items()}
