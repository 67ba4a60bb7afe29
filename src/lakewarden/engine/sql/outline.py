"""What two statements have in common: which rows they select, and how they compute each column.

Two statements select the same rows if everything but their select lists is the same text, once case, quotes, comments
and spaces are the same. Where that says too little, as with DISTINCT, there is no outline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.sql.statement import Statement

if TYPE_CHECKING:
    from sqlglot import exp

_DIALECT = "spark"


@dataclass(frozen=True)
class Value:
    """How a column is computed, as normalised SQL."""

    text: str
    uncast: str | None = None
    """What it casts to another type, if that is all it does."""


@dataclass(frozen=True)
class Outline:
    """A statement taken apart."""

    rows: str
    """All but the select list, and what in the select list decides how many rows there are."""
    values: Mapping[str, Value]
    """By the name of the column in lower case."""


def outline(statement: Statement, columns: Sequence[str]) -> Outline | None:
    """The outline of a statement with these output columns; None if its columns do not stand for themselves."""
    from sqlglot import exp
    from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

    tree = normalize_identifiers(statement.tree().copy(), dialect=_DIALECT)
    if not isinstance(tree, exp.Select) or _depends_on_its_columns(tree):
        return None
    stars = [one for one in tree.expressions if one.is_star]
    named = {one.output_name.lower(): one.unalias() for one in tree.expressions if not one.is_star}
    if "" in named or len(named) + len(stars) < len(tree.expressions) or _names_each_other(tree):
        return None
    if stars and (len(stars) > 1 or tree.args.get("joins") or not isinstance(tree.args["from_"].this, exp.Table)):
        return None
    values = {name: _value(one) for name, one in named.items()}
    for column in columns:
        if column.lower() not in values:
            if not stars:
                return None
            values[column.lower()] = Value(_text(exp.column(column.lower())))
    counting = sorted(_text(one) for one in _counting(tree))
    rest = tree.copy()
    rest.set("expressions", [exp.Literal.number(1)])
    return Outline("\n".join([_text(rest), *counting]), values)


def _value(one: exp.Expression) -> Value:
    from sqlglot import exp

    return Value(_text(one), _text(one.this) if isinstance(one, exp.Cast) else None)


def _text(one: Any) -> str:
    return str(one.sql(dialect=_DIALECT, comments=False, identify=True))


def _depends_on_its_columns(tree: exp.Select) -> bool:
    """Whether the select list decides which rows there are: DISTINCT, GROUP BY ALL, or columns by their number."""
    from sqlglot import exp

    group, order = tree.args.get("group"), tree.args.get("order")
    terms = [*(group.expressions if group else ()), *(one.this for one in (order.expressions if order else ()))]
    return bool(
        tree.args.get("distinct")
        or (group and (group.args.get("all") or not group.expressions))
        or any(isinstance(one, exp.Literal) for one in terms)
        or any(isinstance(one, exp.Column) and one.name == "all" for one in terms)
    )


def _names_each_other(tree: exp.Select) -> bool:
    """Whether a part refers to the alias of another: the same text may then mean something else."""
    from sqlglot import exp

    aliases = {
        one.output_name: one
        for one in tree.expressions
        if isinstance(one, exp.Alias) and not (isinstance(one.this, exp.Column) and one.this.name == one.output_name)
    }
    rest = [tree.args.get(part) for part in ("group", "having", "qualify", "order")]
    return any(
        not column.table and column.name in aliases and aliases[column.name] is not part
        for part in (*tree.expressions, *(one for one in rest if one is not None))
        for column in part.find_all(exp.Column)
    )


def _counting(tree: exp.Select) -> Iterator[exp.Expression]:
    """Parts of the select list that may decide how many rows there are: generators, and functions nobody knows here.

    Aggregates count as one, whatever they compute: a statement without GROUP BY has one row with them.
    """
    from sqlglot import exp

    odd = (exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack, exp.Anonymous, exp.AnonymousAggFunc)
    names = ("JSON_TUPLE", "EXPLODE", "POSEXPLODE", "INLINE", "STACK")
    aggregates = False
    for one in tree.expressions:
        for part in one.find_all(exp.Func):
            if isinstance(part, odd) or part.sql_name().startswith(names):
                yield part
            is_whole = isinstance(part, exp.AggFunc) and part.find_ancestor(exp.Window, exp.Query) is tree
            aggregates = aggregates or is_whole
    if aggregates:
        yield exp.Literal.string("aggregates")
