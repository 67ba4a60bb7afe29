"""`backfill status`."""

from __future__ import annotations

from lakewarden.features.backfill.progress import BackfillStatus, status_of
from lakewarden.features.backfill.registration import Database, Version, backfill_of
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


class Status(Question[BackfillStatus]):
    """Show how far a backfill is, as its target knows it, and what its last operation reports."""

    database: Database
    version: Version

    def ask(self, lake: Reader) -> BackfillStatus:
        return status_of(lake, backfill_of(lake, self.database, self.version))
