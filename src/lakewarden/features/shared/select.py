"""Selecting tables: by name, by a pattern such as `sales.*`, by namespace, or all."""

from __future__ import annotations

import fnmatch
from typing import Annotated, ClassVar

from pydantic import Field

from lakewarden.engine.base.table_name import Reference, TableName
from lakewarden.errors import BadReference, BadValue, TableNotFound
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Completes, Positional, Request


def is_pattern(text: str) -> bool:
    return any(character in text.partition("@")[0] for character in "*?") and "`" not in text


def select(lake: Reader, text: str, with_skipped: bool = False) -> list[Reference]:
    """The table with this name, or all that match a pattern, without those that the configuration skips."""
    if not is_pattern(text):
        return [lake.tables.reference(text)]
    pattern, at, ref = text.partition("@")
    if at and not ref.strip():
        raise BadReference(f"{text!r} has no version after the @", "Write it as in 'sales.*@v1'.")
    matching = [
        name
        for name in lake.tables.names()
        if fnmatch.fnmatchcase(name.within_lake, pattern) or fnmatch.fnmatchcase(str(name), pattern)
    ]
    chosen = [name for name in matching if with_skipped or not lake.settings.skips(name.lake, name.within_lake)]
    if not chosen:
        skipped = (
            f"The configuration skips {len(matching)} matching tables."
            if matching
            else "lakewarden table list shows all."
        )
        raise TableNotFound(f"no table matches {pattern}", skipped)
    return [Reference(name, ref or None) for name in chosen]


class Selects(Request):
    """A request about one table, a pattern, a namespace, or all tables."""

    all_by_default: ClassVar[bool] = False
    """Whether all tables are selected if none is named."""

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table, or a pattern such as 'sales.*'."
    )
    all: bool = Field(False, description="All tables of all lakes.")
    namespace: str | None = Field(None, description="All tables in this namespace and below it.")

    @property
    def is_one(self) -> bool:
        """Whether a single table is named: then its problems are raised, and it is never skipped."""
        return self.table is not None and not is_pattern(self.table)

    @property
    def target(self) -> str:
        return self.table or (f"namespace {self.namespace}" if self.namespace else "all tables")

    def chosen(self, lake: Reader) -> list[TableName]:
        """The selected tables. Unless a table is named, those that the configuration skips are left out."""
        given = [self.table is not None, self.all, self.namespace is not None]
        if sum(given) != 1 and not (self.all_by_default and not any(given)):
            what = "TABLE, --all and --namespace exclude each other" if any(given) else "no tables were selected"
            raise BadValue(what, f"lakewarden {self.address()} TABLE, or --all, or --namespace NS")
        if self.table is not None:
            if "@" in self.table and "`" not in self.table:
                raise BadReference(f"{self.table!r} names a version, not a table", "Remove the @… part.")
            return [reference.name for reference in select(lake, self.table)]
        names = lake.tables.names(namespace=self.namespace)
        return [name for name in names if not lake.settings.skips(name.lake, name.within_lake)]
