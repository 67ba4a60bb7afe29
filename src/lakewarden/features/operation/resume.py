"""`operation resume`."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.errors import IllegalTransition, LakewardenError, SomeTablesFailed
from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import AnyOperationId
from lakewarden.lifecycle.request import Control
from lakewarden.lifecycle.states import State
from lakewarden.quantities import Duration

if TYPE_CHECKING:
    from lakewarden.lifecycle.runner import Runner


class Resume(Control[list[OperationRow]]):
    """Go on with operations that stopped halfway: one by its id, or all that nobody runs now.

    What is done already is looked up in the lake, so nothing is done twice and nothing left out. An
    operation whose process died can be resumed once its lease has run out.
    """

    id: AnyOperationId = None
    wait: Duration = Field(timedelta(), description="How long to wait for leases that have not run out yet.")

    def act(self, runner: Runner) -> list[OperationRow]:
        if self.id is not None:
            record = runner.journal.get(self.id)
            if record.state in (State.PLANNED, State.DONE, State.CANCELLED):
                hint = f"Apply it with: lakewarden operation apply {record.id}" if record.state is State.PLANNED else ""
                raise IllegalTransition(f"operation {record.id} is {record.state}: there is nothing to resume", hint)
            runner.run(record.id, wait=self.wait)
            return [row(runner.journal.get(record.id))]
        return self._all(runner)

    def _all(self, runner: Runner) -> list[OperationRow]:
        """Everything that nobody runs; with --wait also what comes free by a dead holder's lease running out."""
        deadline = time.monotonic() + self.wait.total_seconds()
        tried: dict[str, str] = {}
        while True:
            free, held = runner.unfinished()
            for record in reversed(free):
                if record.id not in tried:
                    tried[record.id] = self._one(runner, record.id)
            if not held or time.monotonic() >= deadline:
                break
            time.sleep(0.2)
        failed = [f"{id}: {problem}" for id, problem in tried.items() if problem]
        if failed:
            raise SomeTablesFailed(
                f"{len(failed)} of {len(tried)} operations could not be finished: {'; '.join(failed[:5])}",
                "lakewarden operation list --state failed shows them.",
            )
        return [row(runner.journal.get(id)) for id in tried]

    def _one(self, runner: Runner, id: str) -> str:
        try:
            runner.run(id, wait=self.wait)
        except LakewardenError as error:
            return error.message
        return ""
