"""A query as its author wrote it: the tables it reads, and the forms in which it is run.

`{begin}` and `{end}` are the bounds of a range of insert times. They become named parameters, so that values never
become part of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lakewarden.engine.sql.reach import refuse_programs
from lakewarden.errors import BadValue

if TYPE_CHECKING:
    from sqlglot import exp

BEGIN, END = "lw_begin", "lw_end"
RANGE = "lw_range"
"""The column with the number of a row's range."""
_PLACEHOLDERS = {"{begin}": f":{BEGIN}", "{end}": f":{END}"}
_DIALECT = "spark"


@dataclass(frozen=True)
class Statement:
    """One SELECT statement."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Statement:
        """Refuse what is not one SELECT over a range of insert times."""
        found = cls(text)
        found.tree()
        for placeholder in _PLACEHOLDERS:
            if placeholder not in text:
                raise BadValue(
                    f"the SQL does not use {placeholder}",
                    "Select the rows of a range, as in: WHERE inserted_at >= {begin} AND inserted_at < {end}",
                )
        return found

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads, as it spells them, each once."""
        return tuple(dict.fromkeys(spelled(table) for table in table_references(self.tree())))

    def over(self, name: Callable[[str], str]) -> str:
        """The statement with other names for its tables. Columns may still be qualified by a table's own name."""
        return over_tables(self.tree(), name)

    def ranges_at_once(self, source: str, insert_time: str) -> bool:
        """Whether one query gives the rows of many ranges: if they come from one source row each, or from a GROUP BY.

        If rows depend on more of their range, as with a window function, each range needs a query of its own.
        """
        from sqlglot import exp

        tree = self.tree()
        return isinstance(tree, exp.Select) and self.tables == (source,) and _keeps_to_ranges(tree, insert_time)

    @property
    def is_grouped(self) -> bool:
        return bool(self.tree().args.get("group"))

    def by_range(self, name: Callable[[str], str]) -> str:
        """The statement over many ranges at once, with the number of each row's range, a column of the source."""
        from sqlglot import exp

        tree = self.tree()
        assert isinstance(tree, exp.Select)
        if self.is_grouped:
            tree = tree.group_by(exp.column(RANGE))
        return over_tables(tree if tree.is_star else tree.select(exp.column(RANGE)), name)

    def columns_of(self, known: list[str]) -> list[str]:
        """Those of a table's columns that it may read; all of them, if it selects `*`."""
        from sqlglot import exp

        tree = self.tree()
        if any(True for _ in tree.find_all(exp.Star)):
            return known
        used = {column.name.lower() for column in tree.find_all(exp.Column)}
        used |= {part.name.lower() for part in tree.find_all(exp.Identifier)}
        return [name for name in known if name.lower() in used]

    def tree(self) -> exp.Query:
        """The parsed statement, with parameters in place of `{begin}` and `{end}`; copy it before changing it."""
        return _parsed(self.text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> exp.Query:
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    for placeholder, parameter in _PLACEHOLDERS.items():
        text = text.replace(f"'{placeholder}'", parameter).replace(placeholder, parameter)
    try:
        trees = [tree for tree in parse(text, read=_DIALECT) if tree is not None]
    except SqlglotError as error:
        place = error.errors[0] if getattr(error, "errors", None) else {}  # type: ignore[attr-defined]
        where = f" at line {place['line']}, column {place['col']}" if place.get("line") else ""
        raise BadValue(f"the SQL cannot be parsed{where}", "It must be one SELECT in Spark's SQL.") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise BadValue("the SQL is not one SELECT statement", "A view set is defined by one SELECT.")
    refuse_programs(trees[0])
    return trees[0]


def table_references(tree: exp.Query) -> Iterator[exp.Table]:
    """Its table references, without those to its own WITH clauses."""
    from sqlglot import exp

    for table in tree.find_all(exp.Table):
        if not names_cte(table):
            if not isinstance(table.this, exp.Identifier):
                raise BadValue(f"the SQL reads {table.sql(_DIALECT)}, which is not a table", "Name tables only.")
            if table.args.get("when") or table.args.get("version"):
                raise BadValue("the SQL reads a version of a table", "Tables are pinned when a partition is written.")
            yield table


def names_cte(table: exp.Table) -> bool:
    """Whether a table reference names a WITH clause that is visible where it stands."""
    from sqlglot import exp

    part: exp.Expr = table
    while not table.db and part.parent is not None:
        around = part.parent
        clauses = around.expressions if isinstance(around, exp.With) else []
        if clauses:  # earlier clauses are visible in later ones
            place = next(place for place, clause in enumerate(clauses) if clause is part)
            clauses = clauses[: place + bool(around.args.get("recursive"))]
        elif not isinstance(part, exp.With) and around.args.get("with_"):
            clauses = around.args["with_"].expressions
        if any(clause.alias.lower() == table.name.lower() for clause in clauses):
            return True
        part = around
    return False


def spelled(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def over_tables(tree: exp.Query, name: Callable[[str], str]) -> str:
    from sqlglot import exp

    copied = tree.copy()
    replaced = set()
    for table in list(table_references(copied)):
        alias = table.alias or table.name
        if not table.alias:
            replaced.add(tuple(part.name.lower() for part in table.parts))
        new = exp.to_table(name(spelled(table)), dialect=_DIALECT)
        new.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        for key in ("pivots", "sample"):
            if table.args.get(key):
                new.set(key, table.args[key])
        table.replace(new)
    for column in list(copied.find_all(exp.Column)):
        _qualify_by_last(column, replaced)
    return str(copied.sql(dialect=_DIALECT))


def _qualify_by_last(column: exp.Column, tables: Collection[tuple[str, ...]]) -> None:
    """Of a column qualified by one of these tables, leave the table's last name: raw.logs.level is logs.level now.

    Other names with dots are fields of nested columns.
    """
    parts = column.parts
    for count in range(len(parts) - 1, 1, -1):
        if tuple(part.name.lower() for part in parts[:count]) in tables:
            left = [None, None, None, *parts[count - 1 :]][-4:]
            for key, part in zip(("catalog", "db", "table", "this"), left, strict=True):
                column.set(key, part)
            return


def _keeps_to_ranges(tree: exp.Select, insert_time: str) -> bool:
    """Whether every row of the result comes from one source row or one group, and ranges only select by insert time."""
    from sqlglot import exp

    whole = ("distinct", "limit", "offset", "qualify", "order", "with_", "with", "joins", "laterals", "windows", "sort")
    if any(tree.args.get(part) for part in (*whole, "cluster", "distribute", "into")):
        return False
    odd = (exp.Window, exp.Subquery, exp.UDTF, exp.Explode, exp.Rand, exp.Uuid, exp.CurrentTimestamp, exp.Anonymous)
    if any(True for _ in tree.find_all(*odd)) or sum(1 for _ in tree.find_all(exp.Query)) > 1:
        return False
    items = {id(one.this if isinstance(one, exp.Column) else one) for one in tree.expressions}
    if any(id(star) not in items and not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return False  # as in struct(*): a value would hold the number of the range
    if not _is_grouped_plainly(tree):
        return False
    where = tree.args.get("where")
    bounds = {BEGIN: exp.GTE, END: exp.LT}
    for part in where.this.flatten() if where is not None and isinstance(where.this, exp.And) else ():
        right = part.args.get("expression")
        name = right.name if isinstance(right, exp.Placeholder) else ""
        is_bound = isinstance(part, bounds.get(name, exp.Null)) and isinstance(part.this, exp.Column)
        if is_bound and part.this.name.lower() == insert_time.lower():
            bounds.pop(name)
    return not bounds and sum(1 for _ in tree.find_all(exp.Placeholder)) == len(_PLACEHOLDERS)


def _is_grouped_plainly(tree: exp.Select) -> bool:
    """Whether it has no aggregates, or groups by plain expressions: an aggregate over nothing gives a row, too."""
    from sqlglot import exp

    group = tree.args.get("group")
    if group is None:
        return not tree.args.get("having") and not any(True for _ in tree.find_all(exp.AggFunc))
    plain = bool(group.expressions) and not any(value for key, value in group.args.items() if key != "expressions")
    sets = (exp.Cube, exp.Rollup, exp.GroupingSets, exp.Tuple)
    return plain and not tree.is_star and not any(isinstance(one, sets) for one in group.expressions)
