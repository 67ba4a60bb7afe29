"""`backfill register`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from lakewarden.features.backfill.files import all_files, files_of
from lakewarden.features.backfill.planning import check
from lakewarden.features.backfill.registration import Backfill, Database, place_of, register
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


@dataclass(frozen=True)
class RegisteredRow:
    """A backfill that is registered now."""

    backfill_id: str
    migration_version: str
    name: str
    is_new: bool


class Register(Control[list[RegisteredRow]]):
    """Register backfills for a database: their files and their SQL are checked, and they are pending from then on."""

    nothing = "There are no backfills in the configured folders."

    database: Database
    version: str | None = Field(None, description="Only the backfill of this version; all of them by default.")

    def act(self, desk: ControlDesk) -> list[RegisteredRow]:
        lake, place = desk.lake, place_of(desk.lake, self.database)
        chosen = [files_of(lake, self.version)] if self.version else all_files(lake)
        backfills = [Backfill(place, files) for files in chosen]
        for backfill in backfills:
            check(lake, backfill)
        rows = []
        for backfill in backfills:
            is_new = register(lake, backfill, lake.clock())
            rows.append(RegisteredRow(backfill.id, backfill.files.version, backfill.files.name, is_new))
        ids = [row.backfill_id for row in rows]
        desk.record(str(place), f"register {len(ids)} backfills", self.model_dump_json(), {"backfills": ids})
        return rows
