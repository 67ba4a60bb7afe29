"""`backfill cancel`."""

from __future__ import annotations

from lakewarden.features.backfill.progress import BackfillRow, last_operation, need, row_of
from lakewarden.features.backfill.registration import Database, Version, backfill_of
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


class Cancel(Control[BackfillRow]):
    """Cancel a backfill: a running one stops after the batch that it is publishing.

    What was written stays, and the target still knows how far it is: `backfill run` continues there.
    """

    journaled = False

    database: Database
    version: Version

    def act(self, desk: ControlDesk) -> BackfillRow:
        backfill = backfill_of(desk.lake, self.database, self.version)
        desk.runner.cancel(need(last_operation(desk.lake, backfill), backfill).id)
        return row_of(desk.lake, backfill)
