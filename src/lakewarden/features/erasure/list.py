"""`erasure list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.features.erasure.entry import RequestRow, row
from lakewarden.lifecycle.request import Completes, Question
from lakewarden.lifecycle.tombstones import ErasureState

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


class List(Question[list[RequestRow]]):
    """List requests for erasure, newest first; those in their grace are waiting."""

    nothing = "No requests."

    table: Annotated[str | None, Completes("tables")] = Field(None, description="Only those about this table.")
    state: list[ErasureState] = Field([], description="Only those in these states.")

    def ask(self, lake: Reader) -> list[RequestRow]:
        uuid = str(lake.tables.load(self.table).metadata.table_uuid) if self.table else ""
        now = lake.clock()
        return [row(request, now) for request in lake.tombstones.list(self.state, uuid)]
