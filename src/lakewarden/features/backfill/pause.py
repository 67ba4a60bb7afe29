"""`backfill pause`."""

from __future__ import annotations

from lakewarden.features.backfill.progress import BackfillRow, last_operation, need, row_of
from lakewarden.features.backfill.registration import Database, Version, backfill_of
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


class Pause(Control[BackfillRow]):
    """Pause a running backfill, in any process: it stops after the batch that it is publishing.

    What was written stays. `backfill resume` continues it.
    """

    journaled = False

    database: Database
    version: Version

    def act(self, desk: ControlDesk) -> BackfillRow:
        backfill = backfill_of(desk.lake, self.database, self.version)
        desk.runner.pause(need(last_operation(desk.lake, backfill), backfill).id)
        return row_of(desk.lake, backfill)
