"""Migrations as their authors write them: `NNN_name.migration.sql`, statements that define tables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.sql.placeholders import fill, split
from lakewarden.errors import BadValue
from lakewarden.features.backfill.files import paths, version_and_name

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader

_SUFFIX = ".migration.sql"
_DEFINES = re.compile(
    r"\s*(?P<verb>CREATE(\s+OR\s+REPLACE)?|ALTER|DROP)\s+(?P<what>TABLE|VIEW|NAMESPACE|SCHEMA|DATABASE)\s+"
    r"(IF\s+(NOT\s+)?EXISTS\s+)?(?P<name>(`[^`]+`|\w+)(\.(`[^`]+`|\w+))*)",
    re.IGNORECASE,
)
_OF_ROWS = re.compile(r"\bAS\s+(SELECT|WITH|TABLE|VALUES|\()", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """One statement, filled in."""

    text: str
    subject: str
    """The table, view or namespace that it changes."""
    is_namespace: bool = False


@dataclass(frozen=True)
class Migration:
    """One file."""

    version: str
    name: str
    path: Path
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]

    def statements(self, database: Sequence[str]) -> list[Statement]:
        """Its statements for a database; refused unless each defines a table, a view or a namespace."""
        return list(self._statements(tuple(database)))

    def _statements(self, database: tuple[str, ...]) -> Iterator[Statement]:
        def value(name: str, quote: str) -> str:
            if name != "db":
                raise BadValue(f"{self.path}: the placeholder {{{name}}} has no value", "Migrations know {db} only.")
            return ".".join(database) if quote else identifier(database)

        for text in split(fill(self.sql, value)):
            found = _DEFINES.match(text)
            is_rows = found is not None and found["what"].upper() == "TABLE" and _OF_ROWS.search(text)
            if found is None or is_rows:
                shown = " ".join(text.split())[:60]
                raise BadValue(
                    f"{self.path}: not a statement that defines a table: {shown}",
                    "Migrations CREATE, ALTER and DROP tables. Write rows with a backfill.",
                )
            is_namespace = found["what"].upper() in ("NAMESPACE", "SCHEMA", "DATABASE")
            yield Statement(text.strip(), found["name"].replace("`", ""), is_namespace)


def all_migrations(lake: Reader) -> list[Migration]:
    """The migrations in the configured folders, by version."""
    found: dict[int, Migration] = {}
    for path in paths(lake, _SUFFIX):
        version, name = version_and_name(path, _SUFFIX)
        if int(version) in found:
            raise BadValue(f"{path} and {found[int(version)].path} have the same version", "Give one another number.")
        found[int(version)] = Migration(version, name, path, path.read_text(encoding="utf-8"))
    return [found[number] for number in sorted(found)]
