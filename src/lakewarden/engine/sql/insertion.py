"""A backfill's SQL: one INSERT INTO … SELECT over a source that is read in ranges of its checkpoint columns.

The source that it reads is a view of exactly the rows of a range (`range_binding.py`). Many ranges are read in one pass
if each row of the result comes from one row of the source; otherwise each range is a query of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from lakewarden.engine.sql.placeholders import as_text, fill, placeholders, written
from lakewarden.engine.sql.range_binding import BATCH_SIZE, CHECKPOINT, RANGED, bound, mark, marks
from lakewarden.engine.sql.statement import over_tables, spelled, table_references
from lakewarden.errors import BadValue, did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

RANGE = "lw_range"
"""The column with the number of a row's range, in the view of the source and last in the result."""
DATABASE, PREDICATE = "db", "range_predicate"
_DIALECT = "spark"
_CHANGING = ("RAND", "RANDN", "RANDSTR", "UUID", "NOW", "LOCALTIMESTAMP", "SHUFFLE", "MONOTONICALLY_INCREASING_ID")
_WHOLE = ("group", "having", "distinct", "limit", "offset", "qualify", "order", "sort", "cluster", "distribute")


@dataclass(frozen=True)
class Insertion:
    """A template with its database and custom fields filled in; what differs by batch is marked."""

    text: str
    """Its placeholders are the checkpoint and the batch size."""
    checkpoint: tuple[str, ...]
    named_source: tuple[str, ...] = ()
    """How it may spell the source, if its author names one; the first is how the author does."""

    @classmethod
    def parse(
        cls,
        text: str,
        database: tuple[str, ...],
        checkpoint: tuple[str, ...],
        fields: Mapping[str, Any],
        source: tuple[str, ...] = (),
    ) -> Insertion:
        """Refuse what is not one INSERT INTO … SELECT, has a placeholder without a value, or could leave out rows.

        The source is the table after FROM, if none is given.
        """
        from lakewarden.engine.base.quoting import identifier

        by_batch = (BATCH_SIZE, PREDICATE, *(f"{CHECKPOINT}{column}" for column in checkpoint))
        known = [DATABASE, *by_batch, *fields]
        for name in placeholders(text):
            if name not in known:
                hint = did_you_mean(name, known, f"Add {name} to custom_fields. Known: {', '.join(known)}.")
                raise BadValue(f"the placeholder {{{name}}} has no value", hint)

        def value(name: str, quote: str) -> str:
            if name in by_batch:
                return f"{{{name}}}"
            if name == DATABASE:
                return ".".join(database) if quote else identifier(database)
            return written(fields[name], quote)

        found = cls(fill(text, value), checkpoint, source)
        if found.source in found.tables:
            found._bound  # noqa: B018 - refuses what could leave out rows
        return found

    @property
    def target(self) -> str:
        """The table that it inserts into, as it spells it."""
        from sqlglot import exp

        inner = self._insert.this
        table: exp.Table = inner.this if isinstance(inner, exp.Schema) else inner
        return spelled(table)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it inserts into, if it names them."""
        inner = self._insert.this
        return tuple(column.name for column in inner.expressions) if inner.key == "schema" else ()

    @property
    def is_by_name(self) -> bool:
        return bool(self._insert.args.get("by_name"))

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads, each once."""
        return tuple(dict.fromkeys(spelled(table) for table in table_references(self._analysed)))

    @property
    def source(self) -> str:
        """The table whose rows it reads in ranges; empty if that is not clear."""
        from sqlglot import exp

        if self.named_source:
            by_case = {name.lower() for name in self.named_source}
            exact = [table for table in self.tables if table in self.named_source]
            near = [table for table in self.tables if table.lower() in by_case]
            return [*exact, *near, self.named_source[0]][0]
        of = self._analysed.args.get("from_")
        found = of.this if of is not None else None
        if isinstance(found, exp.Table) and spelled(found) in self.tables:
            return spelled(found)
        return self.tables[0] if len(self.tables) == 1 else ""

    @cached_property
    def is_repeatable(self) -> bool:
        """Whether it gives the same rows each time, as far as the names of its functions say."""
        from sqlglot import exp

        functions = self._analysed.find_all(exp.Func)
        names = {(node.name if isinstance(node, exp.Anonymous) else node.sql_name()).upper() for node in functions}
        return names.isdisjoint(_CHANGING) and not any(name.startswith("CURRENT_") for name in names)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of what it reads: `RANGED` are the rows of a range, and others are whole tables."""
        return tuple(dict.fromkeys(spelled(table) for table in table_references(self._bound)))

    def columns_read(self, known: Sequence[str]) -> tuple[str, ...]:
        """Those of the source's columns whose names it mentions, whatever they stand for there; all by a star."""
        from sqlglot import exp

        tree = self._bound
        if any(_is_of_range(star) for star in tree.find_all(exp.Star)) or _renames_columns(tree):
            return tuple(known)
        names = [node for node in tree.find_all(exp.Identifier, exp.Var) if not _is_given_name(node)]
        mentioned = {node.name.lower() for node in names}
        return tuple(name for name in known if name.lower() in mentioned or _is_taken_for_a_function(name))

    def needs_values(self) -> bool:
        """Whether it selects the checkpoint's values: then each range is a query of its own."""
        return any(True for _ in marks(self._bound))

    def why_range_by_range(self) -> str:
        """Why each range needs a query of its own; empty if one pass over the source gives all of them."""
        from sqlglot import exp

        tree = self._bound
        if self.needs_values():
            return "its SQL selects values of the checkpoint"
        if not isinstance(tree, exp.Select):
            return "its SQL combines several SELECTs"
        if any(tree.args.get(part) for part in _WHOLE) or any(True for _ in _own(tree, exp.AggFunc, exp.Window)):
            return "its SQL groups, sorts, limits or aggregates rows"
        return "" if _direct(tree) else f"its SQL reads {self.source} in a subquery"

    def query(self, name: Callable[[str], str], values: Mapping[str, Any]) -> str:
        """The SELECT over other names of what it reads, for one range; `values` by placeholder."""
        tree = self._bound.copy()
        for text, placeholder in marks(tree):
            text.replace(_filled(text, placeholder, values))
        return over_tables(tree, name)

    def in_one_pass(self, name: Callable[[str], str]) -> str:
        """The SELECT over many ranges, with the number of each row's range as its last column."""
        from sqlglot import exp

        tree = self._bound.copy()
        assert isinstance(tree, exp.Select)
        ranged = _direct(tree)
        for star in list(_own(tree, exp.Star)):
            if not isinstance(star.parent, exp.Column) or star.parent.table.lower() == ranged.lower():
                star.set("except_", [*(star.args.get("except_") or ()), exp.column(RANGE)])
        tree.append("expressions", exp.column(RANGE, table=ranged))
        return over_tables(tree, name)

    @cached_property
    def _insert(self) -> exp.Insert:
        return _parsed(self._marked)

    @cached_property
    def _analysed(self) -> exp.Query:
        return _query(self._marked)

    @property
    def _marked(self) -> str:
        """The statement with marks in place of what differs by batch."""
        return fill(self.text, lambda name, quote: "true" if name == PREDICATE and not quote else mark(name, quote))

    @cached_property
    def _bound(self) -> exp.Query:
        """The query over the rows of a range, without `column > checkpoint … ORDER BY … LIMIT`."""
        return bound(self._analysed, self.source, self.checkpoint)


def _parsed(text: str) -> exp.Insert:
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    try:
        trees = [tree for tree in parse(text, read=_DIALECT) if tree is not None]
    except SqlglotError as error:
        place = error.errors[0] if getattr(error, "errors", None) else {}  # type: ignore[attr-defined]
        where = f" at line {place['line']}, column {place['col']}" if place.get("line") else ""
        raise BadValue(
            f"the SQL cannot be parsed{where}", "It must be one INSERT INTO … SELECT in Spark SQL."
        ) from None
    hint = "Write one INSERT INTO table SELECT …"
    if len(trees) != 1 or not isinstance(trees[0], exp.Insert) or trees[0].args.get("overwrite"):
        raise BadValue("the SQL is not one INSERT INTO … SELECT statement", hint)
    insert = trees[0]
    if not isinstance(insert.expression, exp.Query) or insert.find(exp.Partition):
        raise BadValue("the SQL inserts something else than the rows of a SELECT", hint)
    return insert


def _query(text: str) -> exp.Query:
    insert = _parsed(text)
    query: exp.Query = insert.expression
    if insert.args.get("with_"):  # WITH … INSERT INTO … SELECT
        query.set("with_", insert.args["with_"])
    return query


def _filled(text: exp.Literal, placeholder: str, values: Mapping[str, Any]) -> exp.Expr:
    """A text whose marks are replaced by values: a literal of its type, or text."""
    from sqlglot import exp, parse_one

    if placeholder:
        return parse_one(written(values[placeholder]), read=_DIALECT)
    return exp.Literal.string(re.sub(r"\{(\w+)\}", lambda found: as_text(values[found[1]]), text.name))


def _direct(tree: exp.Select) -> str:
    """What the outermost SELECT calls the rows of a range; empty if only a subquery reads them."""
    places = (tree.args["from_"], *(tree.args.get("joins") or ()))
    return next((place.this.alias for place in places if place.this.name == RANGED), "")


def _is_of_range(star: exp.Star) -> bool:
    """Whether a star stands for all columns of the rows of a range."""
    from sqlglot import exp

    select = star.find_ancestor(exp.Select)
    if select is None or isinstance(star.parent, exp.Count):
        return select is None
    of = star.parent.table.lower() if isinstance(star.parent, exp.Column) else ""
    tables = [table for table in _own(select, exp.Table) if table.name == RANGED]
    return any(not of or of in (table.alias.lower(), RANGED) for table in tables)


def _renames_columns(tree: exp.Query) -> bool:
    """Whether columns are named by their place, or joined by names that are not there to be read."""
    from sqlglot import exp

    joins = any((join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join))
    return joins or tree.find(exp.Pivot) is not None


def _is_given_name(node: exp.Expr) -> bool:
    """Whether it is what the SQL calls a column of its result."""
    from sqlglot import exp

    return isinstance(node.parent, exp.Alias) and node.arg_key == "alias"


@cache
def _is_taken_for_a_function(name: str) -> bool:
    """Whether a column's name, unquoted, is parsed as something else, such as `user` or `current_date`."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        return name.isidentifier() and not isinstance(parse_one(name, read=_DIALECT), exp.Column)
    except SqlglotError:
        return False


def _own(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Expressions of the outermost SELECT, not of its subqueries."""
    from sqlglot import exp

    for node in tree.walk(prune=lambda each: isinstance(each, exp.Query) and each is not tree):
        if isinstance(node, kinds):
            yield node
