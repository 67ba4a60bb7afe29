"""`erasure list`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.features.erasure.requests.entry import RequestRow, row
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Completes, Question
from lakewarden.records.erasure import ErasureState


class List(Question[list[RequestRow]]):
    """List erasure requests, newest first; requests in their grace period are `waiting`.

    A request is overdue if its deadline has passed and no clean proof has closed it.
    """

    nothing = "No requests."

    table: Annotated[str | None, Completes("tables")] = Field(None, description="Only requests about this table.")
    state: list[ErasureState] = Field([], description="Only requests in these states.")
    overdue: bool = Field(False, description="Only overdue requests.")
    check: bool = Field(False, description="Exit code 3 if a listed request is overdue.")

    def ask(self, lake: Reader) -> list[RequestRow]:
        uuid = str(lake.tables.load(self.table).metadata.table_uuid) if self.table else ""
        now = lake.clock()
        found = lake.state.erasure.list(self.state, uuid)
        return [row(request, now) for request in found if request.is_overdue(now) or not self.overdue]

    def found(self, answer: list[RequestRow]) -> bool:
        return self.check and any(row.overdue for row in answer)
