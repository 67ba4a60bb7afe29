"""`operation list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.lifecycle.request import Completes, Question
from lakewarden.lifecycle.states import State

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


class List(Question[list[OperationRow]]):
    """List what was planned and done, newest first."""

    nothing = "No operations."

    state: list[State] = Field([], description="Only operations in this state; may be given several times.")
    kind: str = Field("", description="Only operations of this kind, as in version.tag.")
    table: Annotated[str, Completes("tables")] = Field("", description="Only operations on this table.")
    limit: int = Field(50, gt=0, description="Show at most this many.")

    def ask(self, lake: Reader) -> list[OperationRow]:
        table = str(lake.tables.name(self.table)) if self.table else ""
        records = lake.journal.list(states=self.state, kind=self.kind, table=table, limit=self.limit)
        return [row(record) for record in records]
