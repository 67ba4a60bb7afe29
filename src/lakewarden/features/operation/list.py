"""`operation list`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.errors import BadReference
from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Completes, Question
from lakewarden.lifecycle.states import State


class List(Question[list[OperationRow]]):
    """List operations that were planned or applied, newest first."""

    nothing = "No operations."

    state: list[State] = Field([], description="Only operations in these states; repeatable.")
    kind: str = Field("", description="Only operations of this kind, as in version.tag.")
    subject: Annotated[str, Completes("tables")] = Field(
        "", description="Only operations on this table or other subject."
    )
    limit: int = Field(50, gt=0, description="Show at most this many.")

    def ask(self, lake: Reader) -> list[OperationRow]:
        subjects = [self.subject, *self._as_table(lake)] if self.subject else []
        records = lake.journal.list(states=self.state, kind=self.kind, subjects=subjects, limit=self.limit)
        return [row(record) for record in records]

    def _as_table(self, lake: Reader) -> list[str]:
        """The subject as the full name of a table, if it can be one."""
        try:
            return [str(lake.tables.name(self.subject))]
        except BadReference:
            return []
