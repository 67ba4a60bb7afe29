"""Parses a filter such as `amount > 10 AND city = 'Bern'`, with the meaning that it has in SQL.

PyIceberg parses the text. Its predicates differ from SQL for NULL, for numbers that a column cannot hold, and for
decimals; so each is replaced by one that is true exactly where SQL's is. A negation is moved inwards to the
comparisons: three-valued logic then needs no third value. NaN is less, equal or greater than no number.

Files keep the types that their columns had when they were written. PyIceberg compares with those, and errs for literals
beyond them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import first_line
from lakewarden.errors import BadFilter, did_you_mean

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression, Reference
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

_HINT = "Supported: comparisons, IN, LIKE 'x%', IS NULL, AND, OR and NOT, as in: amount > 10 AND city = 'Bern'."
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_OPERATORS = {
    "EqualTo": "=",
    "NotEqualTo": "!=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_LIKE = re.compile(r"\blike\s*'(?:[^']|'')*'", re.IGNORECASE)
_NANOSECONDS = re.compile(r"\.\d{7}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDE = Context(prec=100, Emax=10**6, Emin=-(10**6))  # literals are exact, however long they are


def condition(text: str, schema: Schema, version: str, older: Iterable[Schema] = ()) -> BooleanExpression:
    """The filter as a PyIceberg expression over the columns of a version, with files of `older` schemas, too."""
    from pyiceberg.expressions.parser import boolean_expression
    from pyiceberg.expressions.visitors import bind

    text = _LIKE.sub(_pattern, text)
    try:
        grammar = boolean_expression.copy().parse_with_tabs()  # else tabs in values become spaces
        parsed: BooleanExpression = grammar.parse_string(text, parse_all=True)[0]
    except Exception as error:  # noqa: BLE001 - its parse errors, and others for odd literals
        rest = text[getattr(error, "loc", 0) :].strip()  # the parser's message would fill a page
        raise BadFilter(f"--where cannot be parsed from {rest[:60] or 'its end'!r} on", _HINT) from None
    try:
        meant = _Meaning(schema, older).of(parsed, True)
        bind(schema, meant, case_sensitive=True)
    except ValueError as error:
        message = first_line(error)
        unknown = re.search(r"find field with name (.+), case_sensitive", message)
        near = did_you_mean(unknown[1], schema.column_names, _HINT) if unknown else _HINT
        message = f"there is no column {unknown[1]}" if unknown else message
        raise BadFilter(f"--where does not fit {version}: {message}", near) from None
    except (TypeError, NotImplementedError) as error:
        raise BadFilter(f"--where does not fit {version}: {first_line(error)}", _HINT) from None
    return meant


def _pattern(match: re.Match[str]) -> str:
    """A LIKE pattern with `_` as a plain character where it is written as one: PyIceberg knows no other."""
    if re.search(r"(?<!\\)_", match[0]):
        raise BadFilter(
            f"--where: _ stands for any character in LIKE, which is not supported: {match[0].strip()}",
            r"Write \_ for the character itself, as in LIKE 'a\_%'.",
        )
    return match[0].replace(r"\_", "_")


class _Meaning:
    """Translates parsed filters over the columns of one schema."""

    def __init__(self, schema: Schema, older: Iterable[Schema]) -> None:
        self._schema, self._older = schema, tuple(older)

    def of(self, parsed: Any, wanted: bool) -> BooleanExpression:
        """What holds for exactly the rows for which SQL finds the filter true, or false: neither where it is NULL."""
        from pyiceberg.expressions import And, Or

        match type(parsed).__name__:
            case "AlwaysTrue" | "AlwaysFalse":
                return _as_is(parsed, wanted)
            case "Not":
                return self.of(parsed.child, not wanted)
            case "And" | "Or" as kind:
                sides = (self.of(parsed.left, wanted), self.of(parsed.right, wanted))
                return And(*sides) if (kind == "And") == wanted else Or(*sides)
            case _:
                return self._leaf(parsed, wanted)

    def _leaf(self, parsed: Any, wanted: bool) -> BooleanExpression:
        from pyiceberg.expressions import And, NotNull

        term, name = parsed.term, type(parsed).__name__
        field = term.bind(self._schema).ref().field
        column, kind = _Column(term, field.field_type, self._narrowest(field)), field.field_type
        if name in _OPERATORS:
            return self._compared(column, _OPERATORS[name], parsed.literal.value, wanted)
        if name in ("In", "NotIn"):
            return _membership(column, [each.value for each in parsed.literals], (name == "In") == wanted)
        if name in ("IsNull", "NotNull"):
            return _as_is(parsed, wanted)
        if name in ("StartsWith", "NotStartsWith") and str(kind) != "string":
            raise TypeError(f"{term.name} is of type {kind}, and LIKE compares texts only")
        return And(NotNull(term=term), _as_is(parsed, wanted))  # NULL is neither like a text nor NaN or not

    def _compared(self, column: _Column, operator: str, literal: Any, wanted: bool) -> BooleanExpression:
        from pyiceberg.expressions import IsNaN, Or

        if wanted:
            return _comparison(column, operator, literal)
        opposite = _comparison(column, _OPPOSITE[operator], literal)
        return Or(opposite, IsNaN(term=column.term)) if column.may_be_nan and operator not in ("=", "!=") else opposite

    def _narrowest(self, field: NestedField) -> IcebergType | None:
        """The narrowest type that a column of numbers has in older files; None if it always had this one."""
        kinds = [
            each for schema in self._older if (each := _type_in(schema, field.field_id)) not in (None, field.field_type)
        ]
        return min(kinds, key=lambda kind: getattr(kind, "precision", 0), default=None)


@dataclass(frozen=True)
class _Column:
    """A column of a filter."""

    term: Reference
    kind: IcebergType
    narrowest: IcebergType | None
    """The type that it has in older files, if that is another."""

    @property
    def may_be_nan(self) -> bool:
        return str(self.kind) in ("float", "double")

    def fitted(self, literal: Any) -> tuple[Any, bool]:
        """A literal as a value of the column's type, and whether it is exact."""
        name = self.term.name
        value, is_exact = _fitted(name, self.kind, literal)
        if self.narrowest is not None and self._is_lost(value):
            raise BadFilter(
                f"--where: {name} is of type {self.narrowest} in older files, with which {literal} cannot be compared",
                "lakewarden query compares rows after it has read them.",
            )
        return value, is_exact

    def _is_lost(self, value: Any) -> bool:
        """Whether a literal becomes another one in older files: too long for them, or rounded."""
        if value is None or "decimal" in str(self.kind):
            return self.is_beyond(value)
        return (
            str(self.narrowest) == "float"
            and not self.is_beyond(value)
            and _as_stored(value.value, "<f") != value.value
        )

    def is_beyond(self, value: Any) -> bool:
        """Whether a literal is beyond the type that the column has in older files."""
        if self.narrowest is None or value is None:
            return False
        if isinstance(value.value, Decimal):
            narrowest: Any = self.narrowest
            return bool(abs(value.value) >= 10 ** (narrowest.precision - narrowest.scale))
        return type(value.to(self.narrowest)).__name__.endswith(("AboveMax", "BelowMin"))


def _type_in(schema: Schema, field_id: int) -> IcebergType | None:
    try:
        return schema.find_type(field_id)
    except ValueError:
        return None


def _as_is(parsed: BooleanExpression, wanted: bool) -> BooleanExpression:
    return parsed if wanted else ~parsed


def _membership(column: _Column, literals: list[Any], among: bool) -> BooleanExpression:
    from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, In, IsNaN, NotIn, NotNull, Or

    is_in: Callable[..., BooleanExpression] = In
    is_not_in: Callable[..., BooleanExpression] = NotIn
    fitted = [(literal, *column.fitted(literal)) for literal in literals]
    exact = [(literal, value) for literal, value, is_exact in fitted if is_exact]
    alone = [(literal, value) for literal, value in exact if _is_zero(value) or column.is_beyond(value)]
    values = {value for _, value in exact} - {value for _, value in alone}
    if among:
        return Or(AlwaysFalse(), is_in(column.term, values), *(_comparison(column, "=", each) for each, _ in alone))
    found: BooleanExpression = And(NotNull(term=column.term), is_not_in(column.term, values))
    found = Or(found, IsNaN(term=column.term)) if column.may_be_nan else found
    return And(AlwaysTrue(), found, *(_comparison(column, "!=", each) for each, _ in alone))


def _is_zero(value: Any) -> bool:
    return isinstance(value.value, float) and value.value == 0  # for Arrow's sets, 0.0 and -0.0 differ


def _comparison(column: _Column, operator: str, literal: Any) -> BooleanExpression:
    from pyiceberg.expressions import (
        AlwaysFalse,
        And,
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        IsNaN,
        LessThan,
        LessThanOrEqual,
        NotEqualTo,
        NotNaN,
        NotNull,
        Or,
    )

    term = column.term
    value, is_exact = column.fitted(literal)
    if not is_exact:
        if operator in ("=", "!="):
            return AlwaysFalse() if operator == "=" else NotNull(term=term)
        operator = ">" if operator in (">", ">=") else "<="
        if value is None:
            return NotNull(term=term) if operator == ">" else AlwaysFalse()
    made: dict[str, Callable[..., BooleanExpression]] = {
        "=": EqualTo,
        "!=": NotEqualTo,
        "<": LessThan,
        "<=": LessThanOrEqual,
        ">": GreaterThan,
        ">=": GreaterThanOrEqual,
    }
    found = And(NotNull(term=term), made[operator](term, value))  # for a file of a narrower type it is always true
    if not column.may_be_nan:
        return found
    if operator == "!=":
        return Or(found, IsNaN(term=term))  # Arrow skips rows with NaN where all others have the value
    return And(found, NotNaN(term=term)) if column.narrowest is not None else found


def _fitted(name: str, kind: IcebergType, literal: Any) -> tuple[Any, bool]:
    """A literal as a value of a column's type, and whether it is exact.

    If it is not, it is the greatest value of the type below the literal; None if there is none.
    """
    wanted = re.sub(r"\(.*", "", str(kind))
    fitting = _exact if wanted in _FORMS else _NUMBERS.get(wanted)
    if fitting is None:
        raise TypeError(f"{name} is of type {kind}, which no filter compares")
    try:
        return fitting(kind, literal)
    except (ValueError, TypeError, ArithmeticError):
        raise ValueError(f"{name} is of type {kind}, and {_FORMS.get(wanted, 'a number')} is required") from None


def _exact(kind: IcebergType, literal: Any) -> tuple[Any, bool]:
    from pyiceberg.expressions import literals

    wanted = str(kind)
    if wanted == "boolean":
        return literals.BooleanLiteral(_boolean(literal)), True
    if not isinstance(literal, str):
        raise ValueError
    if wanted == "string":
        return literals.StringLiteral(literal), True
    if wanted == "date":
        return literals.DateLiteral((date.fromisoformat(literal) - _EPOCH.date()).days), True
    if wanted == "time":
        return literals.TimeLiteral(_micros(_moment(f"1970-01-01 {literal}", False))), True
    return literals.TimestampLiteral(_micros(_moment(literal, wanted == "timestamptz"))), True


def _whole(kind: Any, literal: Any) -> tuple[Any, bool]:
    from pyiceberg.expressions.literals import LongLiteral

    value, is_exact = _below(_number(literal), 0, Decimal(kind.min), Decimal(kind.max))
    return value if value is None else LongLiteral(int(value)), is_exact


def _decimal(kind: Any, literal: Any) -> tuple[Any, bool]:
    from pyiceberg.expressions.literals import DecimalLiteral

    most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, _WIDE)
    value, is_exact = _below(_number(literal), kind.scale, -most, most)
    return value if value is None else DecimalLiteral(value), is_exact


def _float(_: IcebergType, literal: Any) -> tuple[Any, bool]:
    from pyiceberg.expressions.literals import FloatLiteral

    value, is_exact = _rounded(_number(literal), "<f", b"\xff\xff\x7f\x7f")
    return FloatLiteral(value), is_exact


def _double(_: IcebergType, literal: Any) -> tuple[Any, bool]:
    from pyiceberg.expressions.literals import DoubleLiteral

    value, is_exact = _rounded(_number(literal), "<d", b"\xff" * 6 + b"\xef\x7f")
    return DoubleLiteral(value), is_exact


_NUMBERS: dict[str, Callable[[Any, Any], tuple[Any, bool]]] = {
    "int": _whole,
    "long": _whole,
    "decimal": _decimal,
    "float": _float,
    "double": _double,
}
_FORMS = {
    "boolean": "true or false",
    "string": "a text as in 'Bern'",
    "date": "a date as in '2026-01-31'",
    "time": "a time as in '12:30:00'",
    "timestamp": "a time without a zone, as in '2026-01-31 12:30:00',",
    "timestamptz": "a time as in '2026-01-31 12:30:00+01:00' (UTC without a zone)",
}


def _below(number: Decimal, scale: int, least: Decimal, most: Decimal) -> tuple[Decimal | None, bool]:
    if number < least:
        return None, False
    unit = Decimal(1).scaleb(-scale, _WIDE)
    found = min(number.quantize(unit, ROUND_FLOOR, _WIDE), most).quantize(unit, context=_WIDE)
    return found, found == number


def _rounded(number: Decimal, layout: str, largest: bytes) -> tuple[float, bool]:
    """A number rounded to a type; beyond its largest, that or minus infinity, as for every inexact one."""
    most: float = struct.unpack(layout, largest)[0]
    if abs(number) > Decimal(most) and number.is_finite():
        return (most if number > 0 else float("-inf")), False
    return _as_stored(float(number), layout), True


def _as_stored(value: float, layout: str) -> float:
    found: float = struct.unpack(layout, struct.pack(layout, value))[0]
    return found


def _number(literal: Any) -> Decimal:
    if isinstance(literal, bool):
        raise ValueError
    number = Decimal(literal)
    if number.is_nan():
        raise ValueError
    return number


def _boolean(literal: Any) -> bool:
    if isinstance(literal, str) and literal.lower() in ("true", "false"):
        return literal.lower() == "true"
    if not isinstance(literal, bool):
        raise ValueError
    return literal


def _moment(literal: str, may_have_zone: bool) -> datetime:
    if _NANOSECONDS.search(literal):  # which Python would cut off
        raise ValueError
    moment = datetime.fromisoformat(literal)
    if moment.tzinfo is not None and not may_have_zone:
        raise ValueError
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _micros(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
