"""`backfill resume`."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.features.backfill.progress import BackfillRow, last_operation, need, row_of
from lakewarden.features.backfill.registration import Database, Version, backfill_of
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control

_RUN = "backfill.run"


class Resume(Control[BackfillRow]):
    """Continue a backfill that was paused, has failed, or whose process died, to its end.

    It continues with the batches that were planned; the limit of an earlier run does not count. If its files changed
    since, plan the rest with `backfill run`.
    """

    journaled = False

    database: Database
    version: Version
    max_batches: int | None = Field(None, gt=0, description="Pause again after this many batches.")

    def act(self, desk: ControlDesk) -> BackfillRow:
        backfill = backfill_of(desk.lake, self.database, self.version)
        record = desk.runner.resumable(need(last_operation(desk.lake, backfill), backfill).id)
        id, limits = record.id, {"max_batches": self.max_batches} if record.kind == _RUN else None
        desk.runner.await_dead_holders(only=id)
        is_running = id in {other.id for other in desk.runner.unfinished()[1]}
        desk.runner.run(id, wait=timedelta() if is_running else desk.runner.lease_timeout, limits=limits)
        return row_of(desk.lake, backfill)
