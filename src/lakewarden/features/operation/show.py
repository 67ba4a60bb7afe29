"""`operation show`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.features.operation.entry import OperationDetail, detail
from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


class Show(Question[OperationDetail]):
    """Show one operation: the request, the progress of each action, and what went wrong."""

    id: OperationId
    files: bool = Field(False, description="List every file that its actions affect.")

    def ask(self, lake: Reader) -> OperationDetail:
        record = lake.journal.get(self.id)
        if not self.files:
            return detail(record)
        return detail(record, record.plan.with_files(lambda action: lake.journal.files(record.id, action)))
