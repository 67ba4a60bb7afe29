"""`operation pause`."""

from __future__ import annotations

from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


class Pause(Control[OperationRow]):
    """Pause a running operation, in any process: between two actions or within a long one.

    What was applied stays applied. `operation resume ID` continues it; `operation resume` without an id does not.
    """

    journaled = False

    id: OperationId

    def act(self, desk: ControlDesk) -> OperationRow:
        return row(desk.runner.pause(self.id))
