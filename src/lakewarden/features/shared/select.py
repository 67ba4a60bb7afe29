"""Which tables are meant: by a name, a pattern like `sales.*`, a namespace, or all of them."""

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
    """The one table that a name means, or all that match a pattern; tables configured to be skipped only if asked."""
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
    chosen = [name for name in matching if with_skipped or not lake.settings.skips(name.lake, name.within_lake)]
    if not chosen:
        skipped = (
            f"The configuration skips {len(matching)} that do." if matching else "lakewarden table list shows all."
        )
        raise TableNotFound(f"no table matches {pattern}", skipped)
    return [Reference(name, ref or None) for name in chosen]


class Selects(Request):
    """A request about one table, those of a pattern, those of a namespace, or all."""

    all_unless_said: ClassVar[bool] = False
    """Whether every table is meant where nothing says which."""

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table, or a pattern such as 'sales.*'."
    )
    all: bool = Field(False, description="Every table of every lake.")
    namespace: str | None = Field(None, description="Every table of this namespace and those below it.")

    @property
    def is_one(self) -> bool:
        """Whether one table is meant by its name: then what is wrong with it is an error, and nothing is left out."""
        return self.table is not None and not is_pattern(self.table)

    @property
    def target(self) -> str:
        return self.table or (f"namespace {self.namespace}" if self.namespace else "all tables")

    def chosen(self, lake: Reader) -> list[TableName]:
        """The tables that are meant; of many, those are left out that the configuration says to skip."""
        said = [self.table is not None, self.all, self.namespace is not None]
        if sum(said) != 1 and not (self.all_unless_said and not any(said)):
            what = "nothing says which tables" if not any(said) else "a table, --all and --namespace exclude each other"
            raise BadValue(what, f"lakewarden {self.address()} TABLE, or --all, or --namespace NS")
        if self.table is not None:
            if "@" in self.table and "`" not in self.table:
                raise BadReference(f"{self.table!r} names a version, and a table is meant here", "Leave the @… out.")
            return [reference.name for reference in select(lake, self.table)]
        names = lake.tables.names(namespace=self.namespace)
        return [name for name in names if not lake.settings.skips(name.lake, name.within_lake)]
