"""Runs a caller's statement on DuckDB, over Arrow tables in memory and nothing else: no files, network or variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import first_line
from lakewarden.engine.sql.asked import Asked, Read, mark
from lakewarden.errors import BadValue

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # else names of Python variables are tables
    "threads": "2",
    "temp_directory": "",  # else rows are written to files, which a killed process leaves behind
}
_RESERVED = ("main", "temp", "system")  # no database can have these names, but a lake can
_MOST_PARTS = 3  # catalog, schema and table


def run(asked: Asked, tables: Mapping[Read | str, pa.Table], memory_mb: int) -> pa.Table:
    """The rows of a statement. `tables` has what it reads: tables, lists and the rows of functions, by name."""
    with _connected(memory_mb) as connection:
        names: dict[Read | str, str] = {}
        for place, (what, table) in enumerate(tables.items()):
            name = f"lw_{place}"
            connection.register(name, table)
            if not _is_known_by_name(connection, what, name, asked):
                names[what] = f"temp.main.{name}"
        for function, count in dict.fromkeys(asked.items):
            _define_call(connection, function, count)
        connection.execute("SET lock_configuration = true")
        text = asked.over(names) if names else asked.text
        found = connection.execute(text)
        kinds = [str(column[1]) for column in found.description or ()]
        return _whole_numbers(found.to_arrow_table(), kinds)


@contextmanager
def _connected(memory_mb: int) -> Iterator[DuckDBPyConnection]:
    import duckdb

    try:
        with duckdb.connect(":memory:", config={**_CLOSED, "memory_limit": f"{memory_mb}MB"}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    except duckdb.OutOfMemoryException:
        raise BadValue(
            f"the statement needs more than {memory_mb} MB of memory",
            "Rows are never written to disk. Run it with --engine spark, or raise query.memory_mb.",
        ) from None
    except duckdb.Error as error:
        raise BadValue(f"the SQL cannot be run: {first_line(error)}", "It runs on DuckDB; see its SQL.") from None


def _is_known_by_name(connection: DuckDBPyConnection, what: Read | str, name: str, asked: Asked) -> bool:
    """Give a table the name that the statement uses, so that the statement can run as it was written."""
    if isinstance(what, str):
        if what == asked.change:
            return False
        connection.execute(f"CREATE TEMP MACRO {quoted(what)}() AS TABLE FROM temp.main.{name}")
        return True
    if what.is_function or len(what.parts) > _MOST_PARTS:
        return False
    *outer, _ = what.parts
    if len(outer) == _MOST_PARTS - 1 and outer[0].lower() in _RESERVED:
        return False
    if len(outer) == _MOST_PARTS - 1:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quoted(outer[0])}")
    if outer:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(map(quoted, outer))}")
    whole = ".".join(map(quoted, what.parts))
    connection.execute(f"CREATE VIEW {whole} AS FROM temp.main.{name}")
    return True


def _define_call(connection: DuckDBPyConnection, function: str, count: int) -> None:
    """A call in the SELECT list returns its arguments in a struct that is recognised by its first field."""
    names = [f"a{place}" for place in range(count)]
    fields = ", ".join([f"{quoted(mark(function))} := 0", *(f"{name} := {name}" for name in names)])
    connection.execute(f"CREATE TEMP MACRO {quoted(function)}({', '.join(names)}) AS struct_pack({fields})")


def _whole_numbers(table: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """A sum of integers is a HUGEINT, which Arrow does not have: as 64 bits where it fits."""
    import pyarrow as pa

    for place, kind in enumerate(kinds):
        if kind == "HUGEINT":
            try:
                column = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, table.field(place).name, column)
    return table


def quoted(name: str) -> str:
    """A name of any letters in DuckDB's SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
