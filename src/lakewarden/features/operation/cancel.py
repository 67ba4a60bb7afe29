"""`operation cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.request import Control

if TYPE_CHECKING:
    from lakewarden.lifecycle.runner import Runner


class Cancel(Control[OperationRow]):
    """End an operation: a planned one at once, a running one between two of its actions.

    What was applied stays applied; nothing is taken back.
    """

    id: OperationId

    def act(self, runner: Runner) -> OperationRow:
        return row(runner.cancel(self.id))
