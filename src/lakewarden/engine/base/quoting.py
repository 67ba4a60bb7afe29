"""The one function that quotes SQL identifiers and the one that quotes literals, for Spark SQL.

No other code builds SQL by concatenation. Values should travel to Spark as data; literals are only for statements and
procedures that accept nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakewarden.errors import BadValue


def identifier(*parts: str | Iterable[str]) -> str:
    """`main`.`sales`.`orders`: a multi-part identifier of any names."""
    flat = [name for part in parts for name in ([part] if isinstance(part, str) else part)]
    if not flat or not all(flat):
        raise BadValue("an SQL name cannot be empty")
    if any("\x00" in name or _has_surrogates(name) for name in flat):
        raise BadValue("an SQL name cannot contain a NUL character or a lone surrogate")
    return ".".join("`" + name.replace("`", "``") + "`" for name in flat)


def literal(value: str | int | float | bool | None) -> str:
    """A value as a Spark SQL literal; text of any content is read back exactly."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise BadValue(f"{value} cannot be an SQL literal: it has more than 64 bits")
        return str(value) if -(2**31) <= value < 2**31 else f"{value}L"
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise BadValue(f"{value} cannot be an SQL literal")
        return f"{value!r}D"
    if _has_surrogates(value):
        raise BadValue(f"{value!r} cannot be an SQL literal: it contains a lone surrogate")
    return "'" + "".join(_escaped(character) for character in value) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable() and character != "$":  # Spark would substitute ${name}, even in quotes
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _has_surrogates(text: str) -> bool:
    """Whether a text contains a lone surrogate, as undecodable bytes of a command line become."""
    return any("\ud800" <= character <= "\udfff" for character in text)
