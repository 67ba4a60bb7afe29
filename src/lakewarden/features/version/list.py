"""`version list`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.features.version.history import VersionRow, versions
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question, Table


class List(Question[list[VersionRow]]):
    """List a table's versions, newest first."""

    nothing = "No versions yet: nothing has been written to it."

    table: Table
    limit: int = Field(50, gt=0, description="Show at most this many.")
    tagged: bool = Field(False, description="Only versions with a tag or at the head of a branch.")

    def ask(self, lake: Reader) -> list[VersionRow]:
        rows = versions(lake.tables.load(self.table))
        return [row for row in rows if not self.tagged or row.tags or row.branches][: self.limit]
