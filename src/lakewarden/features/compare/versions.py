"""Which two versions are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.engine.base.table_name import Reference
from lakewarden.lifecycle.request import Positional, Request, Table

if TYPE_CHECKING:
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader

_REF = "a tag, branch, snapshot id or ISO time"


class TwoVersions(Request):
    """The fields that comparisons of two versions have in common."""

    table: Table
    from_version: Annotated[str, Positional()] = Field(description=f"The earlier version: {_REF}.")
    to_version: Annotated[str | None, Positional()] = Field(
        None, description=f"The later version: {_REF}; the head of main by default."
    )
    other: str | None = Field(
        None, description="Take the later version from this table; columns are then matched by name."
    )
    fail_if: list[str] = Field([], description="Exit with code 3 if this rule is true; can be repeated.")

    def versions(self, lake: Reader) -> tuple[Resolved, Resolved]:
        """Both versions, looked up."""
        before = lake.tables.name(self.table)
        after = lake.tables.name(self.other) if self.other is not None else before
        return (
            lake.tables.resolve(str(Reference(before, self.from_version))),
            lake.tables.resolve(str(Reference(after, self.to_version))),
        )

    @property
    def by_name(self) -> bool:
        return self.other is not None
