"""`backfill list`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.features.backfill.progress import BackfillRow, BackfillState, row_of
from lakewarden.features.backfill.registration import registered
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


class List(Question[list[BackfillRow]]):
    """List the registered backfills, those with the highest priority first."""

    nothing = "No backfills. Register them with: lakewarden backfill register --database D"

    database: str | None = Field(None, description="Only those of this database: [lake.]namespace.")
    status: BackfillState | None = Field(None, description="Only those in this state.")

    def ask(self, lake: Reader) -> list[BackfillRow]:
        rows = [row_of(lake, backfill) for backfill in registered(lake, self.database)]
        return [row for row in rows if self.status in (None, row.status)]
