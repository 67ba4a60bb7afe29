"""The syntax of tables and versions: `[lake.]namespace.table[@ref]`.

This module only parses; `engine.catalog.tables` resolves refs. A part with a dot, an @ or a backtick is written in
backticks, as in SQL.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from lakewarden.errors import BadReference

_SPECIAL = frozenset(".@`*?")
_LONGEST = 1024


@dataclass(frozen=True, order=True)
class TableName:
    """A table of a lake. Its text form can be parsed again."""

    lake: str
    namespace: tuple[str, ...]
    table: str

    @property
    def identifier(self) -> tuple[str, ...]:
        """As PyIceberg takes it: without the lake."""
        return (*self.namespace, self.table)

    @property
    def within_lake(self) -> str:
        return ".".join(_quoted(part) for part in self.identifier)

    def __str__(self) -> str:
        return f"{_quoted(self.lake)}.{self.within_lake}"


@dataclass(frozen=True)
class Reference:
    """A table and a version of it; no ref means the head of main."""

    name: TableName
    ref: str | None = None

    def __str__(self) -> str:
        return f"{self.name}@{_quoted(self.ref)}" if self.ref is not None else str(self.name)


def parse(text: str, lakes: Collection[str], default_lake: str) -> Reference:
    """Parse `[lake.]namespace.table[@ref]`; the first part names a lake if one has that name."""
    parts, ref = _split(text)
    if len(parts) < 2:
        raise _bad(text, "the namespace is missing")
    lake = default_lake
    if len(parts) > 2 and parts[0] in lakes:
        lake, parts = parts[0], parts[1:]
    return Reference(TableName(lake, tuple(parts[:-1]), parts[-1]), ref)


def parse_table(text: str, lakes: Collection[str], default_lake: str) -> TableName:
    """Parse a table name without a version."""
    reference = parse(text, lakes, default_lake)
    if reference.ref is not None:
        raise _bad(text, f"a table is expected here, not a version (@{reference.ref})")
    return reference.name


def parse_time(text: str) -> datetime | None:
    """Parse an ISO date or time, in UTC unless it has an offset; None if it is neither."""
    if not text[:4].isascii() or not text[:4].isdigit() or "-" not in text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # its offset may move it out of range
        return None


def _split(text: str) -> tuple[list[str], str | None]:
    if not text.strip():
        raise _bad(text, "it is empty")
    if len(text) > _LONGEST:
        raise _bad(text[:40] + "…", f"it has {len(text)} characters, more than the limit of {_LONGEST}")
    parts: list[str] = []
    position = 0
    while True:
        part, position = _part(text, position, stops=".@")
        parts.append(part)
        if position == len(text):
            return parts, None
        if text[position] == "@":
            break
        position += 1
    if text[position + 1 :].startswith("`"):
        ref, end = _part(text, position + 1, stops="")
        if end != len(text):
            raise _bad(text, "something follows the ref")
    else:
        ref = text[position + 1 :]  # times contain dots, and other tools' tags may contain @
        if not ref.strip():
            raise _bad(text, "nothing follows the @")
    return parts, ref


def _part(text: str, start: int, stops: str) -> tuple[str, int]:
    if text[start : start + 1] == "`":
        return _backticked(text, start)
    end = start
    while end < len(text) and text[end] not in stops:
        if text[end] == "`":
            raise _bad(text, f"a backtick inside a name, at character {end + 1}, needs the name in backticks")
        end += 1
    if not text[start:end].strip():
        raise _bad(text, "a part of the name is empty")
    return text[start:end], end


def _backticked(text: str, start: int) -> tuple[str, int]:
    end, name = start + 1, ""
    while end < len(text):
        if text.startswith("``", end):
            name, end = name + "`", end + 2
        elif text[end] == "`":
            if not name:
                raise _bad(text, "a part of the name is empty")
            if end + 1 < len(text) and text[end + 1] not in ".@":
                raise _bad(text, f"something follows the backtick at character {end + 1}")
            return name, end + 1
        else:
            name, end = name + text[end], end + 1
    raise _bad(text, "a backtick is not closed")


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`" if _SPECIAL & set(part) or not part.strip() else part


def _bad(text: str, why: str) -> BadReference:
    return BadReference(
        f"{text!r} does not name a table: {why}",
        hint="Write it as [lake.]namespace.table[@ref], for example sales.orders@v1.",
    )
