"""Runs one statement of a caller: finds what it reads, runs the functions that change something, and then the SELECT.

Tables are read without hidden rows, and view sets as one instance with its current schema. Functions that change
something run here, once, as operations; executors and DuckDB only see their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lakewarden.engine.rows.read import version_schema
from lakewarden.engine.sql import in_duckdb
from lakewarden.engine.sql.asked import Asked, Kind, Read, mark
from lakewarden.engine.sql.queries import Selected
from lakewarden.errors import BadValue
from lakewarden.features.shared.sql_function import (
    ChangeFunction,
    ListFunction,
    Operate,
    ReadFunction,
    SqlFunction,
    sql_functions,
)
from lakewarden.features.shared.summary import total
from lakewarden.features.viewset.definition import of_table
from lakewarden.features.viewset.reading import selection
from lakewarden.quantities import show_size

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.plan import Plan
    from lakewarden.lifecycle.report import Report
    from lakewarden.lifecycle.request import Operation

Engine = Literal["duckdb", "spark"]
ENGINES: tuple[Engine, ...] = ("duckdb", "spark")


@dataclass(frozen=True)
class Queried:
    """The rows of a statement."""

    rows: pa.Table
    notes: tuple[str, ...] = ()
    """What was left out."""
    plans: tuple[Plan, ...] = ()
    """What functions would change, if the statement was only planned: then its rows say so."""


@dataclass
class _Changes:
    """Runs the operations of a statement, and keeps their plans."""

    operate: Operate
    plans: list[Plan] = field(default_factory=list)
    are_planned: bool = False

    def __call__(self, operation: Operation) -> tuple[Plan, Report | None]:
        plan, report = self.operate(operation)
        self.plans.append(plan)
        self.are_planned = self.are_planned or report is None
        return plan, report


def run(lake: Reader, sql: str, engine: Engine, operate: Operate) -> Queried:
    """The rows of a statement, with its functions run by `operate`."""
    functions = sql_functions()
    statement = _Statement(lake, engine, Asked(sql, engine, {name: _kind(one) for name, one in functions.items()}))
    changes = _Changes(operate)
    asked = statement.asked
    made: dict[str, pa.Table] = {}
    if asked.change is not None:
        function = _changing(asked.change, asked.change_arguments)
        arguments = _only_row(_Statement(lake, engine, asked.arguments()).rows(), function)
        _Statement(lake, engine, asked).rows({function.name: _messages(lake, [])})  # its errors come before the change
        made[function.name] = _messages(lake, function.call(lake, changes, [arguments]))
    called = [_changing(name, count) for name, count in asked.items]
    rows = statement.rows(made)
    _check_calls(rows, called)
    for function in dict.fromkeys(called):
        rows = _with_results(lake, rows, function, changes)
    return Queried(_each_name_once(rows), tuple(statement.notes), tuple(changes.plans) if changes.are_planned else ())


class _Statement:
    """A statement and what it reads."""

    def __init__(self, lake: Reader, engine: Engine, asked: Asked) -> None:
        self._lake, self._engine, self.asked = lake, engine, asked
        self.notes: list[str] = []

    def rows(self, made: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """Run it; `made` has the rows of a function that was run before."""
        given: dict[Read | str, pa.Table] = {}
        given.update(made or {})
        given.update({name: self._list(name) for name in self.asked.lists})
        reads: dict[Read, Selected] = {}
        for read in self.asked.reads:
            nothing = self._without_versions(read)
            if nothing is None:
                reads[read] = self._selected(read)
            else:
                given[read] = nothing
        if self._engine == "spark":
            return self._lake.queries.rows(self.asked, reads, given)
        settings = self._lake.settings.query
        size = sum(self._size(one) for one in reads.values())
        if size > settings.in_process_mb << 20:
            raise BadValue(
                f"the statement reads tables of {show_size(size)}, which is too much for one process",
                "Run it with --engine spark, or raise query.in_process_mb in the configuration.",
            )
        given.update({read: self._table(one) for read, one in reads.items()})
        return in_duckdb.run(self.asked, given, settings.memory_mb)

    def _list(self, name: str) -> pa.Table:
        function = sql_functions()[name]
        assert isinstance(function, ListFunction)
        return function.table(self._lake)

    def _without_versions(self, read: Read) -> pa.Table | None:
        """The columns of a table that nothing was written to yet."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        reference = self._lake.tables.reference(read.reference if not read.is_function else self._table_of(read))
        table = self._lake.tables.load(reference.name)
        if reference.ref is not None or table.current_snapshot() is not None:
            return None
        view = of_table(reference.name, table)
        schema = table.schema() if view is None else table.schema().select(*(name for name, _ in view.columns))
        return schema_to_pyarrow(schema, include_field_ids=False).empty_table()

    def _table_of(self, read: Read) -> str:
        name, *arguments = read.parts
        function = sql_functions()[name]
        assert isinstance(function, ReadFunction)
        _check_arguments(function, len(arguments))
        return function.table(self._lake, arguments)

    def _selected(self, read: Read) -> Selected:
        lake = self._lake
        if read.is_function:
            name, *arguments = read.parts
            function = sql_functions()[name]
            assert isinstance(function, ReadFunction)
            found = function.read(lake, arguments)
        else:
            version = lake.tables.resolve(read.reference)
            of_view_set = selection(lake, version)
            found = Selected(version)
            if of_view_set is not None:
                found = Selected(version, of_view_set.only, of_view_set.columns, of_view_set.left_out)
        self.notes += [found.left_out] if found.left_out else []
        return found

    def _size(self, selected: Selected) -> int:
        version = selected.version
        known = total(version.snapshot, "files-size")
        if known is not None:
            return known
        files = self._lake.files.of(version.table, version.snapshot).by_path
        return sum(file.bytes for file in files.values())

    def _table(self, selected: Selected) -> pa.Table:
        """The columns that the statement uses; the first one, if it only counts rows."""
        import pyarrow as pa

        known = selected.columns or tuple(field.name for field in version_schema(selected.version).fields)
        columns = self.asked.columns_of(known) or known[:1]
        schema, batches = self._lake.rows.batches(selected.version, columns=columns, only=selected.only)
        return pa.Table.from_batches(batches, schema)


def _with_results(lake: Reader, rows: pa.Table, function: ChangeFunction, changes: _Changes) -> pa.Table:
    """Run a function for the arguments in its columns, and put its texts in their place."""
    import pyarrow as pa

    for place, column in enumerate(rows.schema):
        if _is_call(column, function):
            arguments = [tuple(row.values())[1:] for row in rows.column(place).to_pylist()]
            texts = function.call(lake, changes, arguments) if arguments else []
            rows = rows.set_column(place, column.name, pa.array(texts, pa.string()))
    return rows


def _is_call(column: pa.Field, function: ChangeFunction) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(column.type) and column.type.names[:1] == [mark(function.name)])


def _check_calls(rows: pa.Table, called: Sequence[ChangeFunction]) -> None:
    """A column may repeat a call by its alias: the function would run for both."""
    found = sum(1 for column in rows.schema for function in dict.fromkeys(called) if _is_call(column, function))
    if found > len(called):
        raise BadValue(
            "the statement uses the result of a function that changes something by its alias",
            "Nothing was changed. Name the function's result once.",
        )


def _changing(name: str, arguments: int) -> ChangeFunction:
    function = sql_functions()[name]
    assert isinstance(function, ChangeFunction)
    _check_arguments(function, arguments)
    return function


def _only_row(rows: pa.Table, function: ChangeFunction) -> tuple[Any, ...]:
    """The arguments of a function in FROM."""
    found = rows.to_pylist()
    if len(found) != 1 or None in found[0].values():
        what = "is NULL" if len(found) == 1 else f"has {len(found)} values"
        raise BadValue(f"an argument of {function.name} {what}", "Nothing was changed. Each must be one value.")
    return tuple(found[0].values())


def _each_name_once(rows: pa.Table) -> pa.Table:
    """Rows as documents need a name for each column: the second `id` becomes `id_2`."""
    names: list[str] = []
    for name in rows.column_names:
        number, new = 1, name
        while new in names:
            number += 1
            new = f"{name}_{number}"
        names.append(new)
    return rows.rename_columns(names)


def _check_arguments(function: ReadFunction | ChangeFunction, given: int) -> None:
    if given != len(function.parameters):
        raise BadValue(
            f"{function.name} takes {len(function.parameters)} arguments, not {given}",
            f"As in: {function.name}({', '.join(function.parameters)})",
        )


def _messages(lake: Reader, messages: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    now = [lake.clock()] * len(messages)
    return pa.table({"time": pa.array(now, pa.timestamp("us", tz="UTC")), "msg": pa.array(messages, pa.string())})


def _kind(function: SqlFunction) -> Kind:
    match function:
        case ListFunction():
            return Kind.LIST
        case ReadFunction():
            return Kind.READS
        case ChangeFunction():
            return Kind.CHANGES_BY_ROW if function.by_row else Kind.CHANGES
