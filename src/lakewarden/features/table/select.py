"""Which tables are meant by a name or a pattern like `sales.*`."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from lakewarden.engine.reference import Reference
from lakewarden.errors import BadReference, TableNotFound

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


def is_pattern(text: str) -> bool:
    return any(character in text.partition("@")[0] for character in "*?") and "`" not in text


def select(lake: Reader, text: str) -> list[Reference]:
    """The one table that a name means, or all that match a pattern and are not configured to be skipped."""
    if not is_pattern(text):
        return [lake.tables.reference(text)]
    pattern, at, ref = text.partition("@")
    if at and not ref.strip():
        raise BadReference(f"{text!r} names no version: nothing follows the @", "Write it as in 'sales.*@v1'.")
    matching = [
        name
        for name in lake.tables.names()
        if fnmatch.fnmatchcase(name.within_lake, pattern) or fnmatch.fnmatchcase(str(name), pattern)
    ]
    chosen = [name for name in matching if not lake.settings.skips(name.lake, name.within_lake)]
    if not chosen:
        skipped = (
            f"The configuration skips {len(matching)} that do." if matching else "lakewarden table list shows all."
        )
        raise TableNotFound(f"no table matches {pattern}", skipped)
    return [Reference(name, ref or None) for name in chosen]
