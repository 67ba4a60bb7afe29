"""`operation cancel`."""

from __future__ import annotations

from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


class Cancel(Control[OperationRow]):
    """Cancel an operation: a planned one immediately, a running one between two actions or within a long one.

    What was applied stays applied; nothing is undone.
    """

    journaled = False

    id: OperationId

    def act(self, desk: ControlDesk) -> OperationRow:
        return row(desk.runner.cancel(self.id))
