"""`backfill clear`."""

from __future__ import annotations

from lakewarden.features.backfill.progress import BackfillRow, refuse_running, row_of
from lakewarden.features.backfill.registration import PROPERTY, Database, Version, backfill_of, set_property
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


class Clear(Control[BackfillRow]):
    """Take a backfill out of the list of its database. Rows and stamps in the target stay.

    Registered again, it continues where the target is.
    """

    database: Database
    version: Version

    def act(self, desk: ControlDesk) -> BackfillRow:
        backfill = backfill_of(desk.lake, self.database, self.version)
        refuse_running(desk.lake, backfill)
        row = row_of(desk.lake, backfill)
        set_property(desk.lake, backfill.place, PROPERTY + backfill.files.version, None)
        desk.record(str(backfill.place), f"clear backfill {backfill.id}", self.model_dump_json(), {"was": row.status})
        return row
