"""Fills the placeholders of an SQL template, such as `{checkpoint_id}`, with values as literals.

Outside of quotes a value becomes a literal of its type. Within the template's own quotes it becomes text, escaped, so
that no value can end the quotes. Comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakewarden.engine.base.quoting import literal
from lakewarden.errors import BadValue

_PIECE = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`)
      | (?P<placeholder>\{[A-Za-z_]\w*\})""",
    re.DOTALL | re.VERBOSE,
)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


def placeholders(text: str) -> list[str]:
    """The names of a template's placeholders, each once."""
    found: dict[str, None] = {}

    def note(name: str, quote: str) -> str:
        found[name] = None
        return ""

    fill(text, note)
    return list(found)


def fill(text: str, value: Callable[[str, str], str]) -> str:
    """The text with each placeholder replaced by what `value` gives for its name and the quote that it is within."""

    def piece(match: re.Match[str]) -> str:
        if match["comment"]:
            return " "
        if match["placeholder"]:
            return value(match["placeholder"][1:-1], "")
        quoted = match["quoted"]
        return _PLACEHOLDER.sub(lambda inner: value(inner[1], quoted[0]), quoted)

    return _PIECE.sub(piece, text)


def split(text: str) -> list[str]:
    """The statements of a text without comments, separated by semicolons outside of quotes."""
    parts = [""]
    for piece in re.split(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|;)""", text, flags=re.DOTALL):
        if piece == ";":
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def written(value: Any, quote: str = "") -> str:
    """A value as a literal of its type, or as text within the quote of a literal; a list is separated by commas."""
    if quote == "`":
        raise BadValue("a value cannot be part of a name", "Use {db} only within backticks.")
    if quote:
        return literal(as_text(value))[1:-1].replace('"', '\\"')
    if isinstance(value, list | tuple):
        return ", ".join(written(each) for each in value)
    if isinstance(value, datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{kind} {literal(as_text(value))}"
    if isinstance(value, date):
        return f"DATE {literal(as_text(value))}"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if value is None or isinstance(value, str | int | float):
        return literal(value)
    raise BadValue(f"{value!r} cannot be an SQL literal", "Use text, numbers, true, false, null, or a list of them.")


def as_text(value: Any) -> str:
    """A value as people and Spark write it; times in UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)).isoformat(" ")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else "" if value is None else str(value)
