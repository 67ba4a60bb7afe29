"""`operation apply`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.errors import IllegalTransition
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.request import Control
from lakewarden.lifecycle.run import Report
from lakewarden.lifecycle.states import State
from lakewarden.quantities import Duration

if TYPE_CHECKING:
    from lakewarden.lifecycle.runner import Runner


class Apply(Control[Report]):
    """Apply a plan that was made and looked at earlier, if nothing it requires has changed."""

    id: OperationId
    wait: Duration = Field(timedelta(), description="How long to wait for a table that another operation holds.")

    def act(self, runner: Runner) -> Report:
        record = runner.journal.get(self.id)
        if record.state is not State.PLANNED:
            resumable = record.state in (State.PAUSED, State.FAILED, State.RUNNING, State.VERIFYING)
            resume = f"Go on with it by: lakewarden operation resume {record.id}" if resumable else "Plan it anew."
            raise IllegalTransition(f"operation {record.id} is {record.state}, not planned", resume)
        return runner.run(record.id, wait=self.wait)
