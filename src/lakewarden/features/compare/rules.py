"""Rules that a comparison must pass, as in `rows_removed > 0.1 * rows_from`: a comparison fails if a rule is true.

A rule is parsed by Python's `ast` and walked by a whitelist: numbers, names of the answer, arithmetic, comparisons,
`and`, `or`, `not`, and calls of the functions that the comparison offers, each with the name of a column. Nothing else
can be called, and no attribute can be read.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from lakewarden.errors import BadValue, did_you_mean

_LONGEST = 1_000
Number = float | int | bool


def _divided(one: Number, other: Number) -> float:
    """As floating point numbers divide: a rule about an empty table is no error."""
    if other:
        return one / other
    return math.copysign(math.inf, one) if one else math.nan


_ARITHMETIC: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
Functions = Mapping[str, Callable[[str], Number]]


@dataclass(frozen=True)
class Rule:
    """A rule that was parsed: it uses only what it may."""

    text: str
    tree: ast.expr

    @classmethod
    def parse(cls, text: str, names: Collection[str], functions: Collection[str]) -> Rule:
        """A rule over these names and functions of columns."""
        if len(text) > _LONGEST:
            raise BadValue(f"a rule may have {_LONGEST} characters, this one has {len(text)}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise _malformed(text, "it is no expression", names, functions) from None
        try:
            _check(tree, text, names, functions)
        except RecursionError:
            raise _malformed(text, "it is nested too deeply", names, functions) from None
        return cls(text, tree)

    def holds(self, values: Mapping[str, Number], functions: Functions) -> bool:
        """Whether the rule is true of an answer."""
        return bool(_value(self.tree, values, functions))


def _check(node: ast.expr, text: str, names: Collection[str], functions: Collection[str]) -> None:  # noqa: C901 - one case each
    def inner(*nodes: ast.expr) -> None:
        for each in nodes:
            _check(each, text, names, functions)

    match node:
        case ast.BoolOp(values=parts):
            inner(*parts)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
            inner(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            inner(left, right)
        case ast.Compare(left=left, ops=ops, comparators=others) if _COMPARISONS.keys() >= {type(op) for op in ops}:
            inner(left, *others)
        case ast.Constant(value=bool() | int() | float()):
            return
        case ast.Name(id=name) if name in names:
            return
        case ast.Name(id=name):
            raise _unknown(text, name, names, functions)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in functions:
            _column(argument, text, names, functions)
        case ast.Call(func=ast.Name(id=name)):
            raise _unknown(text, f"{name}()", names, functions)
        case _:
            raise _malformed(text, f"{ast.unparse(node)[:60]!r} cannot be used in a rule", names, functions)


def _column(node: ast.expr, text: str, names: Collection[str], functions: Collection[str]) -> str:
    """The column that a function is called with: a name, or a text if the name is nested or unusual."""
    match node:
        case ast.Name(id=name) | ast.Constant(value=str(name)):
            return name
        case _:
            raise _malformed(
                text, f"{ast.unparse(node)[:60]!r} is no column; quote nested names: 'a.b'", names, functions
            )


def _value(node: ast.expr, values: Mapping[str, Number], functions: Functions) -> Number:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values, functions) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values, functions) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values, functions)
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, values, functions)
            return -value if isinstance(op, ast.USub) else +value
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_value(left, values, functions), _value(right, values, functions))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(side, values, functions) for side in (left, *others)]
            pairs = zip(ops, sides, sides[1:], strict=False)
            return all(_COMPARISONS[type(op)](one, other) for op, one, other in pairs)
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return functions[name](_column(argument, "", (), ()))
    raise AssertionError(f"{ast.dump(node)} was checked")


def _unknown(text: str, name: str, names: Collection[str], functions: Collection[str]) -> BadValue:
    known = [*names, *(f"{function}()" for function in functions)]
    return BadValue(f"rule {text!r}: there is no {name}", did_you_mean(name, known, _known(names, functions)))


def _malformed(text: str, why: str, names: Collection[str], functions: Collection[str]) -> BadValue:
    return BadValue(f"rule {text[:80]!r}: {why}", _known(names, functions))


def _known(names: Collection[str], functions: Collection[str]) -> str:
    called = "".join(f", {function}(COLUMN)" for function in functions)
    return f"Rules can use {', '.join(names)}{called}, numbers, + - * /, comparisons, and, or, not."
