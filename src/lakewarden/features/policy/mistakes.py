"""Configuration without effect: patterns that match no table, subjects whose table or column does not exist."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import LakewardenError, NotFound, did_you_mean
from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class Mistake:
    """Where in the configuration, what is wrong, and what to do."""

    where: str
    what: str
    advice: str


def mistakes(lake: Reader) -> list[Mistake]:
    """Entries for tables and columns that do not exist. Tables are listed only if the configuration has patterns."""
    found = _unmatched(lake, lake.tables.names()) if lake.settings.tables else []
    keys = [(subject, *key) for subject, keys in lake.settings.subjects.items() for key in keys.items()]
    return [*found, *filter(None, lake.tables.read_all(keys, lambda key: _missing(lake, *key)))]


def _unmatched(lake: Reader, names: list[TableName]) -> list[Mistake]:
    known = {text for name in names for text in (name.within_lake, f"{name.lake}.{name.within_lake}")}
    return [
        Mistake(
            f"tables: {pattern}",
            "matches no table",
            did_you_mean(pattern, known, "Correct or remove it; lakewarden table list shows all tables."),
        )
        for pattern in lake.settings.tables
        if not any(fnmatch.fnmatchcase(name, pattern) for name in known)
    ]


def _missing(lake: Reader, subject: str, table: str, column: str) -> Mistake | None:
    where = f"subjects: {subject}: {table}"
    try:
        name = lake.tables.name(table)
        find_keys(lake.tables.load(name).metadata, column, str(name))
    except NotFound as error:
        return Mistake(where, error.message, error.hint or "Correct or remove it.")
    except LakewardenError as error:
        return Mistake(where, f"cannot be used: {error.message}", error.hint or "Correct it.")
    return None
