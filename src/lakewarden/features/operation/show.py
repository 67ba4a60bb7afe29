"""`operation show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.features.operation.entry import OperationDetail, detail
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.request import Question

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


class Show(Question[OperationDetail]):
    """Show one operation: what was asked, each action and how far it came, and what went wrong."""

    id: OperationId

    def ask(self, lake: Reader) -> OperationDetail:
        return detail(lake.journal.get(self.id))
