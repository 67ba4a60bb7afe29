"""One SELECT that a caller wrote: the tables it reads, and Lakewarden's functions that it calls.

A function that changes something must run exactly once, however the statement is executed. So it may be called in two
places only: alone in FROM, or as an item of the outer SELECT list. There, its arguments are evaluated first, it runs,
and its rows take its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.sql.reach import refuse_programs
from lakewarden.engine.sql.statement import names_cte
from lakewarden.errors import BadValue

if TYPE_CHECKING:
    from sqlglot import exp

Dialect = Literal["duckdb", "spark"]
_ROWS_OF_THEIR_OWN = (
    *("range", "generate_series", "unnest", "repeat", "stack", "json_tuple", "explode", "explode_outer"),
    *("posexplode", "posexplode_outer", "inline", "inline_outer"),
)
_NAMED_LIKE_FUNCTIONS = ("current_", "localtime", "session_user")  # a column of this name is taken for the function
_MARK = "lw:"


class Kind(Enum):
    """What a function of Lakewarden is in SQL."""

    LIST = "a list, in FROM"
    READS = "rows of a table, chosen by constant arguments, in FROM"
    CHANGES = "changes something and returns rows, in FROM"
    CHANGES_BY_ROW = "changes something for each row and returns a text, in the outer SELECT list"


@dataclass(frozen=True)
class Read:
    """A table, or a function that reads one, in FROM."""

    parts: tuple[str, ...]
    """The name of the table as it is written; the function and its arguments."""
    is_function: bool = False

    @property
    def reference(self) -> str:
        """What `tables.resolve` takes. A single quoted name may hold a version, as in "sales.orders@v1"."""
        return self.parts[0] if len(self.parts) == 1 else identifier(self.parts)


class Asked:
    """A parsed statement."""

    def __init__(self, text: str, dialect: Dialect, functions: Mapping[str, Kind]) -> None:
        self.text = text
        self._dialect = dialect
        self._functions = functions
        self._tree = _one_select(text, dialect)
        self._check()

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The tables that it reads, each once."""
        return tuple(dict.fromkeys(read for _, read in self._reads()))

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """The lists that it reads, each once."""
        return tuple(dict.fromkeys(name for _, name in self._calls_in_from(Kind.LIST)))

    @cached_property
    def change(self) -> str | None:
        """The function in FROM that changes something."""
        return next((name for _, name in self._calls_in_from(Kind.CHANGES)), None)

    @property
    def change_arguments(self) -> int:
        return next((len(call.expressions) for call, _ in self._calls(Kind.CHANGES)), 0)

    @cached_property
    def items(self) -> tuple[tuple[str, int], ...]:
        """The calls in the outer SELECT list that change something, with the number of their arguments."""
        return tuple((name, len(call.expressions)) for call, name in self._calls(Kind.CHANGES_BY_ROW))

    def arguments(self) -> Asked:
        """A statement that evaluates the arguments of `change`: one row."""
        from sqlglot import exp

        call = next(call for call, _ in self._calls(Kind.CHANGES))
        items = [exp.alias_(argument.copy(), f"a{place}") for place, argument in enumerate(call.expressions)]
        select = exp.select(*items)
        if self._tree.args.get("with_"):
            select.set("with_", self._tree.args["with_"].copy())
        return Asked(select.sql(dialect=self._dialect), self._dialect, self._functions)

    def columns_of(self, known: Sequence[str]) -> list[str]:
        """Those of a table's columns that it may read."""
        from sqlglot import exp

        tree = self._tree
        everything = (exp.Pivot, exp.Columns, exp.PositionalColumn, exp.Describe, exp.Summarize)
        if any(True for _ in tree.find_all(*everything)) or any(
            not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)
        ):
            return list(known)
        if any((join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join)):
            return list(known)
        if any(table.alias_column_names for table in tree.find_all(exp.Table)):  # t AS x(a, b) goes by position
            return list(known)
        whole_rows = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)}
        if any(column.name.lower() in whole_rows for column in tree.find_all(exp.Column)):
            return list(known)
        used = {part.name.lower() for part in tree.find_all(exp.Identifier)}
        return [name for name in known if name.lower() in used or name.lower().startswith(_NAMED_LIKE_FUNCTIONS)]

    def over(self, names: Mapping[Read | str, str]) -> str:
        """The statement with other names for tables and functions in FROM, and calls of `items` as marked structs."""
        from sqlglot import exp

        copied = Asked(self.text, self._dialect, self._functions)
        found: list[tuple[exp.Table, Read | str]] = [*copied._reads(), *copied._calls_in_from()]
        replaced = set()
        for table, what in found:
            if what in names:
                if isinstance(what, Read) and not table.alias:
                    replaced.add(tuple(part.lower() for part in what.parts))
                new = exp.to_table(names[what], dialect=self._dialect)
                new.set("alias", table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(_short(what), True)))
                for key in ("joins", "pivots", "sample", "laterals"):
                    if table.args.get(key):
                        new.set(key, table.args[key])
                table.replace(new)
        for column in copied._tree.find_all(exp.Column):  # sales.orders.amount is orders.amount now
            qualifier = tuple(part.name.lower() for part in column.parts[:-1])
            if len(qualifier) > 1 and qualifier in replaced:
                column.set("db", None)
                column.set("catalog", None)
        for call, name in list(copied._calls(Kind.CHANGES_BY_ROW)):
            struct: exp.Expr = _marked(name, call.expressions)
            if not isinstance(call.parent, exp.Alias):
                struct = exp.alias_(struct, call.sql(dialect=self._dialect), quoted=True)
            call.replace(struct)
        return str(copied._tree.sql(dialect=self._dialect))

    def _check(self) -> None:
        from sqlglot import exp

        changing = [*self._calls(Kind.CHANGES), *self._calls(Kind.CHANGES_BY_ROW)]
        outer = self._tree
        for call, name in changing:
            if self._functions[name] is Kind.CHANGES:
                source = _from(outer)
                allowed = source is not None and source.this is call.parent and not outer.args.get("joins")
            else:
                item = call.parent if isinstance(call.parent, exp.Alias) else call
                allowed = isinstance(outer, exp.Select) and any(item is one for one in outer.expressions)
            if not allowed or (len(changing) > 1 and self._functions[name] is Kind.CHANGES):
                place = "alone in FROM" if self._functions[name] is Kind.CHANGES else "as an item of the outer SELECT"
                raise BadValue(
                    f"{name} changes something and may only be called {place}",
                    "Anywhere else it might run more than once, or not at all.",
                )
        for lateral in outer.find_all(exp.Lateral):
            name = _called(lateral.this)
            if not isinstance(lateral.this, exp.Subquery) and name not in _ROWS_OF_THEIR_OWN:
                raise BadValue(f"{name or lateral.sql(self._dialect)} cannot be called in LATERAL", "Name it in FROM.")
        refuse_programs(outer)
        list(self._reads())

    def _reads(self) -> Iterator[tuple[exp.Table, Read]]:
        from sqlglot import exp

        for table in list(self._tree.find_all(exp.Table)):
            if table.find_ancestor(exp.Hint) is not None:
                continue
            if table.args.get("when") or table.args.get("version"):
                raise BadValue("versions are written in the name of a table", 'As in: SELECT * FROM "sales.orders@v1"')
            if not isinstance(table.this, exp.Identifier):
                name = _called(table.this)
                if self._functions.get(name) is Kind.READS:
                    yield table, Read((name, *_constants(name, table.this.expressions)), is_function=True)
                elif name not in self._functions and name not in _ROWS_OF_THEIR_OWN:
                    hint = f"Functions: {', '.join(self._functions)}."
                    if isinstance(table.this, exp.Dot):
                        hint = 'Quote a name of more than three parts as a whole, as in: "lake.a.b.orders"'
                    raise BadValue(f"{name or table.sql(self._dialect)} is not a table", hint)
            elif not names_cte(table):
                yield table, Read(tuple(part.name for part in table.parts))

    def _calls_in_from(self, *kinds: Kind) -> Iterator[tuple[exp.Table, str]]:
        from sqlglot import exp

        for table in list(self._tree.find_all(exp.Table)):
            name = _called(table.this) if not isinstance(table.this, exp.Identifier) else ""
            if name in self._functions and (not kinds or self._functions[name] in kinds):
                yield table, name

    def _calls(self, kind: Kind) -> Iterator[tuple[Any, str]]:
        from sqlglot import exp

        for call in list(self._tree.find_all(exp.Anonymous)):
            if self._functions.get(call.name.lower()) is kind:
                yield call, call.name.lower()


def mark(name: str) -> str:
    return f"{_MARK}{name}"


def _marked(name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    from sqlglot import exp

    fields = [(mark(name), exp.Literal.number(0)), *((f"a{place}", each) for place, each in enumerate(arguments))]
    return exp.Struct(
        expressions=[exp.PropertyEQ(this=exp.to_identifier(key, True), expression=each.copy()) for key, each in fields]
    )


def _one_select(text: str, dialect: Dialect) -> exp.Query:
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    try:
        trees = [tree for tree in parse(text, read=dialect) if tree is not None]
    except SqlglotError as error:
        place = error.errors[0] if getattr(error, "errors", None) else {}  # type: ignore[attr-defined]
        where = f" at line {place['line']}, column {place['col']}" if place.get("line") else ""
        raise BadValue(f"the SQL cannot be parsed{where}", f"It must be one SELECT in the SQL of {dialect}.") from None
    changes = (exp.DML, exp.DDL, exp.Command, exp.Into)
    is_select = len(trees) == 1 and isinstance(trees[0], exp.Query)
    if not is_select or any(not isinstance(found, exp.Query) for found in trees[0].find_all(*changes)):
        raise BadValue("the SQL is not one SELECT statement", "It may read tables; they are changed by operations.")
    return trees[0]  # type: ignore[return-value]


def _from(tree: exp.Query) -> Any:
    return tree.args.get("from_") or tree.args.get("from")


def _called(node: Any) -> str:
    """The name of a function, in lower case."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return str(node.sql_name()).lower() if isinstance(node, exp.Func) else ""


def _constants(name: str, arguments: Sequence[exp.Expr]) -> Iterator[str]:
    from sqlglot import exp

    for argument in arguments:
        if not isinstance(argument, exp.Literal) or not argument.is_string:
            raise BadValue(f"the arguments of {name} must be texts", f"As in: {name}('log_entries', 'global')")
        yield argument.this


def _short(what: Read | str) -> str:
    if isinstance(what, str):
        return what
    return what.parts[0] if what.is_function else what.parts[-1]
