"""`operation resume`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.errors import Interrupted, LakewardenError, SomeOperationsFailed
from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import AnyOperationId
from lakewarden.lifecycle.request import Control
from lakewarden.lifecycle.states import State
from lakewarden.quantities import Duration

if TYPE_CHECKING:
    from lakewarden.lifecycle.runner import Runner


class Resume(Control[list[OperationRow]]):
    """Go on with operations that stopped halfway: one by its id, or all that nobody runs now.

    What is done already is looked up in the lake, so nothing is done twice and nothing left out. A process
    that died keeps its operation until its lease runs out, which is waited for; one that lives is left alone.
    """

    nothing = "Nothing to resume."

    id: AnyOperationId = None
    wait: Duration | None = Field(None, description="Wait at most this long for leases; else until they run out.")

    def act(self, runner: Runner) -> list[OperationRow]:
        if self.id is not None:
            return [self._one(runner, runner.resumable(self.id).id)]
        runner.await_dead_holders(self.wait)
        return self._all(runner)

    def _one(self, runner: Runner, id: str) -> OperationRow:
        runner.await_dead_holders(self.wait, only=id)
        _, held = runner.unfinished()
        lives = id in {other.id for other in held}
        runner.run(id, wait=timedelta() if lives else self._for_tables(runner))
        return row(runner.journal.get(id))

    def _all(self, runner: Runner) -> list[OperationRow]:
        free, held = runner.unfinished()
        ended = {record.id: self._problem(runner, record.id) for record in reversed(free)}
        failed = [f"{id}: {problem}" for id, problem in ended.items() if problem]
        if failed:
            raise SomeOperationsFailed(
                f"{len(failed)} of {len(ended)} operations could not be finished: {'; '.join(failed[:5])}",
                "lakewarden operation show ID tells more of each.",
            )
        return [row(runner.journal.get(id)) for id in (*ended, *(record.id for record in held))]

    def _problem(self, runner: Runner, id: str) -> str:
        try:
            runner.run(id, wait=self._for_tables(runner))
        except Interrupted:
            if runner.journal.get(id).state is not State.CANCELLED:
                raise  # whoever interrupts one means all
        except LakewardenError as error:
            return error.message
        return ""

    def _for_tables(self, runner: Runner) -> timedelta:
        """A dead holder's tables come free about when its operation does."""
        return runner.lease_timeout if self.wait is None else self.wait
