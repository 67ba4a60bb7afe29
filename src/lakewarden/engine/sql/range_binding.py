"""Binds a backfill's SELECT to ranges of its source.

One reference to the source stands for the rows of a range: the one in FROM, through subqueries and WITH clauses. All
others, as in a self-join, read the whole source. The template's own limits to a batch, `id > {checkpoint_id} … LIMIT
{batch_size}`, are taken out, if no row of a range can fail them. What could leave rows out, or repeat rows of another
table with every batch, is refused.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

from lakewarden.engine.sql.statement import spelled
from lakewarden.errors import BadValue

if TYPE_CHECKING:
    from sqlglot import exp

BATCH_SIZE, CHECKPOINT = "batch_size", "checkpoint_"
RANGED = "lakewarden_range"
"""The name of the source where it stands for the rows of a range."""
_MARK = re.compile(r"\{=?(\w+)\}")
_BATCH_SIZE = f"{{={BATCH_SIZE}}}"


def mark(name: str, quote: str) -> str:
    """What a parsed statement has in place of a value that differs by batch; within quotes, it stays as it is."""
    return f"{{{name}}}" if quote else f"'{{={name}}}'"


def marks(tree: exp.Expr) -> Iterator[tuple[exp.Literal, str]]:
    """The texts that have marks, each with the name if it is one that stood outside of quotes."""
    from sqlglot import exp

    for text in list(tree.find_all(exp.Literal)):
        if text.is_string and _MARK.search(text.name):
            whole = _MARK.fullmatch(text.name)
            yield text, whole[1] if whole and text.name.startswith("{=") else ""


def bound(tree: exp.Query, source: str, checkpoint: tuple[str, ...]) -> exp.Query:
    """The same query over the rows of a range, which are called `RANGED`."""
    from sqlglot import exp

    copied = tree.copy()
    found = _Path(source, copied, {}).of(copied)
    if not found:
        raise BadValue(
            f"the SQL does not read {source} after FROM, or by an inner join",
            "Rows of other tables would come with every batch. Put it after FROM, or name another source_table.",
        )
    for table in found:
        _take_out_conditions(table, checkpoint)
        _rename(table)
    for column in copied.find_all(exp.Column):  # shop.orders.id is orders.id now
        if ".".join(part.name for part in column.parts[:-1]) == source:
            column.set("db", None)
            column.set("catalog", None)
    _check_the_rest(copied)
    return copied


@dataclass(frozen=True)
class _Path:
    """Finds the references that stand for the rows of a range, and checks the queries on the way to them."""

    source: str
    whole: exp.Query
    named: dict[str, exp.Query]
    """Queries by the name that a WITH clause gives them."""

    def of(self, query: exp.Expr) -> list[exp.Table]:
        """The references within a query; none if it does not read the source."""
        from sqlglot import exp

        if isinstance(query, exp.Table):
            if spelled(query) == self.source:
                return [query]
            return self._named(query)
        with_ = query.args.get("with_")
        named = self.named | {cte.alias.lower(): cte.this for cte in (with_.expressions if with_ else ())}
        found = _Path(self.source, self.whole, named)._within(query)
        if found:
            _take_out_limit(query)
        return list({id(table): table for table in found}.values())

    def _named(self, table: exp.Table) -> list[exp.Table]:
        """Those within a query of a WITH clause. All references to it read the same range, as its author wants it."""
        from sqlglot import exp

        inner, name = self.named.get(table.name.lower()), table.name.lower()
        if inner is None or table.db:
            return []
        is_batch, found = any(True for _ in marks(inner)), self.of(inner)
        if found and not is_batch and sum(each.name.lower() == name for each in self.whole.find_all(exp.Table)) > 1:
            raise BadValue(
                f"the SQL reads {table.name} more than once, so it is not clear which of them has the rows of a batch",
                "Have its WITH clause select them: WHERE column > {checkpoint_column}.",
            )
        return found

    def _within(self, query: exp.Expr) -> list[exp.Table]:
        from sqlglot import exp

        if isinstance(query, exp.Subquery):
            return self.of(query.this)
        if isinstance(query, exp.Union):
            sides = [self.of(query.this), self.of(query.expression)]
            return sides[0] + sides[1] if all(sides) else []
        if isinstance(query, exp.SetOperation):  # EXCEPT, INTERSECT: the right side is compared with, and read whole
            return self.of(query.this)
        if not isinstance(query, exp.Select) or query.args.get("from_") is None:
            return []
        joins = query.args.get("joins") or []
        inner = [join.this for join in joins if not join.side and join.kind in ("", "INNER", "CROSS")]
        for first in (query.args["from_"].this, *inner):
            if found := self.of(first):
                if outer := next((join.side for join in joins if join.side in ("RIGHT", "FULL")), ""):
                    raise BadValue(
                        f"the SQL has a {outer.lower()} join, whose rows without a match would come with every batch",
                        f"Put {self.source} after FROM, and use a LEFT JOIN.",
                    )
                return found
        return []


def _take_out_limit(query: exp.Expr) -> None:
    """Remove the LIMIT of a batch, and the order that only matters to it; another limit would leave rows out."""
    limit = query.args.get("limit")
    if limit is not None and limit.expression is not None and limit.expression.name == _BATCH_SIZE:
        query.set("limit", None)
        query.set("order", None)
    if query.args.get("limit") or query.args.get("offset"):
        raise BadValue(
            "the SQL limits the rows of a batch by a number of its own, so rows would be left out",
            "Write LIMIT {batch_size}, or leave the LIMIT out: a batch has the rows of its range.",
        )


def _take_out_conditions(table: exp.Table, checkpoint: tuple[str, ...]) -> None:
    """Remove the conditions on the checkpoint from the SELECT that reads the source."""
    from sqlglot import exp

    select = table.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if select is None or where is None:
        return
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    about = [part for part in parts if any(True for _ in marks(part))]
    if not about or not _hold_after(about, checkpoint, table.alias or table.name):
        return
    rest = [part for part in parts if part not in about]
    select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)


def _rename(table: exp.Table) -> None:
    from sqlglot import exp

    alias = table.alias or table.name
    if table.alias_column_names:
        raise BadValue(
            f"the SQL names the columns of {spelled(table)} by their place",
            f"A range of it may have fewer columns. Call it {alias} only, and use its own column names.",
        )
    table.set("this", exp.to_identifier(RANGED))
    table.set("db", None)
    table.set("catalog", None)
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))


def _check_the_rest(tree: exp.Query) -> None:
    """Values of a batch may still be selected; a condition on them would leave rows out."""
    from sqlglot import exp

    deciding = (exp.Where, exp.Having, exp.Qualify, exp.Join, exp.Limit, exp.Offset, exp.Group, exp.Order, exp.Sort)
    if any(text.find_ancestor(*deciding) for text, _ in marks(tree)):
        raise BadValue(
            "the SQL compares the checkpoint in a way that could leave out rows after it",
            "Write WHERE {range_predicate} instead: a batch has the rows of its range.",
        )


def _hold_after(conditions: list[exp.Expr], checkpoint: tuple[str, ...], alias: str) -> bool:
    """Whether each row after the checkpoint fulfils these conditions: tried out with every order of small numbers."""
    numbers = range(3) if len(checkpoint) < 4 else range(2)
    names = [column.lower() for column in checkpoint]
    for row, at in product(product(numbers, repeat=len(names)), repeat=2):
        known: dict[str, float] = {f"{CHECKPOINT}{name}": value for name, value in zip(names, at, strict=True)}
        for name, value in zip(names, row, strict=True):
            known |= {name: value, f"{alias.lower()}.{name}": value}
        try:
            if row > at and not all(_value(condition, known) for condition in conditions):
                return False
        except (KeyError, TypeError):
            return False
    return True


def _value(node: exp.Expr, known: Mapping[str, float]) -> Any:
    """Whether a condition holds; KeyError if it is about more than columns, checkpoints and the batch size."""
    from sqlglot import exp

    match node:
        case exp.Paren():
            return _value(node.this, known)
        case exp.Boolean():
            return node.this
        case exp.And():
            return _value(node.this, known) and _value(node.expression, known)
        case exp.Or():
            return _value(node.this, known) or _value(node.expression, known)
        case exp.Not():
            return not _value(node.this, known)
        case exp.Between():
            low, value, high = (_operand(node.args[part], known) for part in ("low", "this", "high"))
            return low <= value <= high
        case exp.Is() if isinstance(node.this, exp.Literal) and isinstance(node.expression, exp.Null):
            return False
    return _compared(type(node), _operand(node.this, known), _operand(node.expression, known))


def _operand(node: exp.Expr, known: Mapping[str, float]) -> Any:
    """The value of a column or a checkpoint, neither of them NULL; infinity for the end of a batch."""
    from sqlglot import exp

    match node:
        case exp.Paren() | exp.Coalesce():
            return _operand(node.this, known)
        case exp.Cast() if not (node.args.get("safe") and node.find(exp.Column)):  # TRY_CAST of a column is a filter
            return _operand(node.this, known)
        case exp.Tuple() | exp.Struct():
            return tuple(_operand(each, known) for each in node.expressions)
        case exp.Column():
            return known[f"{node.table}.{node.name}".lower().removeprefix(".")]
        case exp.Literal():
            found = _MARK.fullmatch(node.name)
            return known[found[1].lower() if found else node.name]
        case exp.Add() if node.expression.name == _BATCH_SIZE:
            return _operand(node.this, known) + inf
    raise KeyError(type(node))


def _compared(kind: type[exp.Expr], one: Any, other: Any) -> bool:
    from sqlglot import exp

    compared = {exp.GT: operator.gt, exp.GTE: operator.ge, exp.LT: operator.lt, exp.LTE: operator.le}
    if inf not in (one, other):
        compared |= {exp.EQ: operator.eq, exp.NEQ: operator.ne}
    return bool(compared[kind](one, other))  # type: ignore[index]
