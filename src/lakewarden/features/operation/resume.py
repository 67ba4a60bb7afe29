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
    """Resume operations that stopped halfway: one by its id, or all that no process is running.

    What is already done is looked up in the lake, so nothing is done twice or left out. The operation of a process that
    died is free when its lease expires, which this command waits for; operations of live processes are left alone. An
    operation that was paused with `operation pause` resumes only by its id.
    """

    journaled = False
    nothing = "Nothing to resume."

    id: AnyOperationId = None
    wait: Duration | None = Field(None, description="Wait at most this long for leases; by default until they expire.")

    def act(self, desk: ControlDesk) -> list[OperationRow]:
        if self.id is not None:
            return [self._one(desk, desk.runner.resumable(self.id).id)]
        desk.runner.await_dead_holders(self.wait)
        return self._all(desk)

    def _one(self, desk: ControlDesk, id: str) -> OperationRow:
        desk.runner.await_dead_holders(self.wait, only=id)
        _, held = desk.runner.unfinished()
        is_running = id in {other.id for other in held}
        desk.runner.run(id, wait=timedelta() if is_running else self._wait_for_tables(desk))
        return row(desk.journal.get(id))

    def _all(self, desk: ControlDesk) -> list[OperationRow]:
        free, held = desk.runner.unfinished()
        finished = {record.id: self._problem(desk, record.id) for record in reversed(free)}
        failed = [f"{id}: {problem}" for id, problem in finished.items() if problem]
        if failed:
            raise SomeOperationsFailed(
                f"{len(failed)} of {len(finished)} operations could not be finished: {'; '.join(failed[:5])}",
                "lakewarden operation show ID shows the details.",
            )
        left = (record.id for record in (*held, *desk.runner.paused()))
        return [row(desk.journal.get(id)) for id in dict.fromkeys((*finished, *left))]

    def _problem(self, desk: ControlDesk, id: str) -> str:
        try:
            desk.runner.run(id, wait=self._wait_for_tables(desk), by_its_id=False)
        except Interrupted:
            if desk.journal.get(id).stop_requested is None:
                raise  # an interrupt stops all of them; a request to pause or cancel stops one
        except LakewardenError as error:
            return error.message
        return ""

    def _wait_for_tables(self, desk: ControlDesk) -> timedelta:
        """Leases on tables of a dead process expire about when the lease on its operation does."""
        return desk.runner.lease_timeout if self.wait is None else self.wait
