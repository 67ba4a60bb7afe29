"""`operation apply`."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.features.operation.identity import OperationId
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Control
from lakewarden.quantities import Duration


class Apply(Control[Report]):
    """Apply a stored plan, if nothing it requires has changed."""

    journaled = False

    id: OperationId
    wait: Duration = Field(timedelta(), description="Wait at most this long for tables that other operations hold.")

    def act(self, desk: ControlDesk) -> Report:
        return desk.runner.apply(self.id, wait=self.wait)
