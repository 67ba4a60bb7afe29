"""A backfill's SQL: one INSERT INTO … SELECT over a source that is read in ranges of its checkpoint columns.

Whatever the SELECT looks like, the source that it reads is a view of exactly the rows of a range. So the template's own
`id > {checkpoint_id} … ORDER BY id LIMIT {batch_size}` is not needed. If it can be taken out, many ranges are read in
one pass; otherwise its values are filled in, and each range is a query of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from lakewarden.engine.sql.placeholders import fill, placeholders, written
from lakewarden.engine.sql.statement import over_tables, spelled, table_references
from lakewarden.errors import BadValue, did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

RANGE = "lw_range"
"""The column with the number of a row's range, in the view of the source and last in the result."""
DATABASE, BATCH_SIZE, CHECKPOINT, PREDICATE = "db", "batch_size", "checkpoint_", "range_predicate"
_DIALECT = "spark"
_MARK = "lakewarden:"
_CHANGING = ("RAND", "RANDN", "RANDSTR", "UUID", "NOW", "LOCALTIMESTAMP", "SHUFFLE", "MONOTONICALLY_INCREASING_ID")
_WHOLE = ("group", "having", "distinct", "limit", "offset", "qualify", "order", "sort", "cluster", "distribute")


@dataclass(frozen=True)
class Insertion:
    """A template with its database and custom fields filled in; what differs by batch is marked."""

    text: str
    """Its placeholders are the checkpoint and the batch size."""
    checkpoint: tuple[str, ...]

    @classmethod
    def parse(
        cls, text: str, database: tuple[str, ...], checkpoint: tuple[str, ...], fields: Mapping[str, Any]
    ) -> Insertion:
        """Refuse what is not one INSERT INTO … SELECT, or has a placeholder without a value."""
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

        found = cls(fill(text, value), checkpoint)
        found._analysed  # noqa: B018 - refuses what is no such statement
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
    def first_table(self) -> str:
        """The table after FROM: usually the source."""
        from sqlglot import exp

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

    def needs_values(self) -> bool:
        """Whether the checkpoint's values are part of the query: then each range is a query of its own."""
        return any(True for _ in _marks(self._without_pattern))

    def why_range_by_range(self, source: str) -> str:
        """Why each range needs a query of its own; empty if one pass over the source gives all of them."""
        from sqlglot import exp

        tree = self._without_pattern
        if self.needs_values():
            return "its SQL compares the checkpoint in a way that is not known to mean `column > checkpoint`"
        if not isinstance(tree, exp.Select):
            return "its SQL combines several SELECTs"
        if any(tree.args.get(part) for part in _WHOLE) or any(True for _ in _own(tree, exp.AggFunc, exp.Window)):
            return "its SQL groups, sorts, limits or aggregates rows"
        of = tree.args.get("from_")
        first = of.this if of is not None else None
        is_first = isinstance(first, exp.Table) and spelled(first) == source
        if not is_first or sum(spelled(table) == source for table in table_references(tree)) != 1:
            return f"its SQL does not read {source} once, right after FROM"
        if any(join.side in ("RIGHT", "FULL") for join in tree.args.get("joins") or ()):
            return "its SQL has a right or full join"
        return ""

    def query(self, name: Callable[[str], str], values: Mapping[str, Any]) -> str:
        """The SELECT over other names of its tables, for one range; `values` by placeholder."""
        if not self.needs_values():
            return over_tables(self._without_pattern, name)

        def value(placeholder: str, quote: str) -> str:
            return "true" if placeholder == PREDICATE else written(values[placeholder], quote)

        tree = _without_limit(_query(fill(self.text, value)), str(values[BATCH_SIZE]))
        return over_tables(tree, name)

    def in_one_pass(self, name: Callable[[str], str]) -> str:
        """The SELECT over many ranges, with the number of each row's range as its last column."""
        from sqlglot import exp

        tree = self._without_pattern.copy()
        assert isinstance(tree, exp.Select)
        for star in list(_own(tree, exp.Star)):
            star.set("except_", [*(star.args.get("except_") or ()), exp.column(RANGE)])
        source = tree.args["from_"].this
        tree.append("expressions", exp.column(RANGE, table=source.alias or source.name))
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

        def mark(name: str, quote: str) -> str:
            if name == PREDICATE and not quote:
                return "true"
            return f"{_MARK}{name}" if quote else f"'{_MARK}{name}'"

        return fill(self.text, mark)

    @cached_property
    def _without_pattern(self) -> exp.Query:
        """The query without `column > checkpoint … ORDER BY … LIMIT`, if that is what its marks mean."""
        from sqlglot import exp

        tree = _without_limit(self._analysed.copy(), f"{_MARK}{BATCH_SIZE}")
        where = tree.args.get("where") if isinstance(tree, exp.Select) else None
        if where is None:
            return tree
        parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        about = [part for part in parts if any(True for _ in _marks(part))]
        if not about or not _means_after(about, self.checkpoint):
            return tree
        rest = [part for part in parts if part not in about]
        tree.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        return tree


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


def _without_limit(tree: exp.Query, batch_size: str) -> exp.Query:
    """The query without the LIMIT of a batch, and without the order that only matters to a limit."""
    limit = tree.args.get("limit")
    if limit is not None and limit.expression is not None and limit.expression.name == batch_size:
        tree.set("limit", None)
        tree.set("order", None)
    return tree


def _marks(tree: exp.Expr) -> Iterator[str]:
    from sqlglot import exp

    for text in tree.find_all(exp.Literal):
        if text.is_string and _MARK in text.name:
            yield text.name.removeprefix(_MARK)


def _own(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Expressions of the outermost SELECT, not of its subqueries."""
    from sqlglot import exp

    for node in tree.walk(prune=lambda each: isinstance(each, exp.Query) and each is not tree):
        if isinstance(node, kinds):
            yield node


def _means_after(conditions: list[exp.Expr], checkpoint: tuple[str, ...]) -> bool:
    """Whether these conditions mean that a row is after the checkpoint: tried out with every order of small numbers."""
    numbers = range(3) if len(checkpoint) < 4 else range(2)
    for row in product(numbers, repeat=len(checkpoint)):
        for at in product(numbers, repeat=len(checkpoint)):
            known = dict(zip((column.lower() for column in checkpoint), row, strict=True))
            known |= {f"{_MARK}{CHECKPOINT}{column}".lower(): v for column, v in zip(checkpoint, at, strict=True)}
            try:
                if all(_value(condition, known) for condition in conditions) != (row > at):
                    return False
            except (KeyError, TypeError):
                return False
    return True


def _value(node: exp.Expr, known: Mapping[str, int]) -> Any:
    """The value of a condition on columns and checkpoints; KeyError if it is about anything else."""
    import operator

    from sqlglot import exp

    compared = {exp.GT: operator.gt, exp.GTE: operator.ge, exp.LT: operator.lt, exp.LTE: operator.le}
    compared |= {exp.EQ: operator.eq, exp.NEQ: operator.ne}
    match node:
        case exp.Paren() | exp.Cast():
            return _value(node.this, known)
        case exp.And():
            return _value(node.this, known) and _value(node.expression, known)
        case exp.Or():
            return _value(node.this, known) or _value(node.expression, known)
        case exp.Not():
            return not _value(node.this, known)
        case exp.Tuple() | exp.Struct():
            return tuple(_value(each, known) for each in node.expressions)
        case exp.Column() | exp.Literal():
            return known[node.name.lower()]
    return compared[type(node)](_value(node.this, known), _value(node.expression, known))  # type: ignore[index]
