"""`operation pause`."""

from __future__ import annotations

from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


class Pause(Control[OperationRow]):
    """Pause an operation that runs, in whatever process: between two actions, or within a long one.

    What was applied stays applied. `operation resume ID` continues it; `operation resume` without an id leaves it
    paused.
    """

    journaled = False

    id: OperationId

    def act(self, desk: ControlDesk) -> OperationRow:
        return row(desk.runner.pause(self.id))
