"""`operation resume`."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.errors import Interrupted, LakewardenError, SomeOperationsFailed
from lakewarden.features.operation.entry import OperationRow, row
from lakewarden.features.operation.identity import AnyOperationId
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control
from lakewarden.quantities import Duration


class Resume(Control[list[OperationRow]]):
    """Continue operations that stopped halfway: one by its id, or all that no process runs now.

    What is done already is looked up in the lake, so nothing is done twice and nothing left out. A process
    that died keeps its operation until its lease runs out, which is waited for; one that lives is left alone. What was
    paused with `operation pause` continues only by its id.
    """

    journaled = False
    nothing = "Nothing to resume."

    id: AnyOperationId = None
    wait: Duration | None = Field(None, description="Wait at most this long for leases; else until they run out.")

    def act(self, desk: ControlDesk) -> list[OperationRow]:
        if self.id is not None:
            return [self._one(desk, desk.runner.resumable(self.id).id)]
        desk.runner.await_dead_holders(self.wait)
        return self._all(desk)

    def _one(self, desk: ControlDesk, id: str) -> OperationRow:
        desk.runner.await_dead_holders(self.wait, only=id)
        _, held = desk.runner.unfinished()
        lives = id in {other.id for other in held}
        desk.runner.run(id, wait=timedelta() if lives else self._for_tables(desk))
        return row(desk.journal.get(id))

    def _all(self, desk: ControlDesk) -> list[OperationRow]:
        free, held = desk.runner.unfinished()
        ended = {record.id: self._problem(desk, record.id) for record in reversed(free)}
        failed = [f"{id}: {problem}" for id, problem in ended.items() if problem]
        if failed:
            raise SomeOperationsFailed(
                f"{len(failed)} of {len(ended)} operations could not be finished: {'; '.join(failed[:5])}",
                "lakewarden operation show ID tells more of each.",
            )
        left = (record.id for record in (*held, *desk.runner.paused()))
        return [row(desk.journal.get(id)) for id in dict.fromkeys((*ended, *left))]

    def _problem(self, desk: ControlDesk, id: str) -> str:
        try:
            desk.runner.run(id, wait=self._for_tables(desk), by_its_id=False)
        except Interrupted:
            if desk.journal.get(id).stop_requested is None:
                raise  # an interrupt is for all of them; a request to pause or to end is for one
        except LakewardenError as error:
            return error.message
        return ""

    def _for_tables(self, desk: ControlDesk) -> timedelta:
        """A dead holder's tables come free about when its operation does."""
        return desk.runner.lease_timeout if self.wait is None else self.wait
