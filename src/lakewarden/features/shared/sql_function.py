"""Functions in SQL. A noun declares its own in `features/NOUN/sql_functions.py`; `lakewarden query` calls them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_type_hints

from lakewarden import features
from lakewarden.lifecycle.report import Report

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.engine.sql.queries import Selected
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.plan import Plan
    from lakewarden.lifecycle.request import Operation, Question


class Operate(Protocol):
    """Applies an operation, or only plans it: then there is no report."""

    def __call__(self, operation: Operation) -> tuple[Plan, Report | None]: ...


@dataclass(frozen=True)
class ListFunction:
    """`name()` in FROM: the answer to a question, read again for every statement."""

    name: str
    question: type[Question[Any]]
    row: type
    """The dataclass of its rows."""

    def table(self, lake: Reader) -> pa.Table:
        import pyarrow as pa

        schema = self.schema()
        rows = self.question().ask(lake)
        columns = [pa.array([getattr(row, name) for row in rows], schema.field(name).type) for name in schema.names]
        return pa.table(columns, schema=schema)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        kinds = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), datetime: pa.timestamp("us", tz="UTC")}
        hints = get_type_hints(self.row)
        names = [field.name for field in dataclasses.fields(self.row)]
        return pa.schema([(name, kinds[(get_args(hints[name]) or (hints[name],))[0]]) for name in names])


@dataclass(frozen=True)
class ReadFunction:
    """`name('…', …)` in FROM: rows of a table, chosen by texts."""

    name: str
    parameters: tuple[str, ...]
    table: Callable[[Reader, Sequence[str]], str]
    """The name of the table."""
    read: Callable[[Reader, Sequence[str]], Selected]


@dataclass(frozen=True)
class ChangeFunction:
    """Changes something by operations: alone in FROM it returns messages, by row a text for each row."""

    name: str
    parameters: tuple[str, ...]
    call: Callable[[Reader, Operate, Sequence[Sequence[Any]]], list[str]]
    """Gets the arguments of each row; in FROM, those of the only one."""
    by_row: bool = False


SqlFunction = ListFunction | ReadFunction | ChangeFunction


@cache
def sql_functions() -> dict[str, SqlFunction]:
    """All functions, by name."""
    modules = [f"{features.__name__}.{noun.replace('-', '_')}.sql_functions" for noun in features.NOUNS]
    found = [function for name in modules if find_spec(name) for function in import_module(name).FUNCTIONS]
    return {function.name: function for function in found}
