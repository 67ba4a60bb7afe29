"""`erasure prove`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lakewarden.errors import Conflict
from lakewarden.features.erasure.proofs import prove_action
from lakewarden.features.erasure.proofs.proof_records import ThisRun
from lakewarden.features.erasure.requests.current_names import find_table, tables_of
from lakewarden.features.erasure.requests.mark_action import unmark_ended
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Positional, TableOperation
from lakewarden.records.erasure import ErasureState

_HINTS = {
    ErasureState.CLOSED: "A clean proof closed it, and its values were deleted. lakewarden erasure watch reports "
    "them if they come back.",
    ErasureState.WITHDRAWN: "Its values were deleted, so nothing can search for them.",
}


class Prove(TableOperation):
    """Search everything stored for a request's tables for the values to erase. A clean proof closes the request.

    Every object is read: data and delete files, manifests, metadata and statistics, unreferenced files, files in
    quarantine, and earlier object versions that a bucket keeps. If anything is left, the exit code is 3 and the places
    are listed. --plan shows how much there is to read.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")
    accept_missing: bool = Field(
        False, description="Count tables that are gone from the catalog as proved. The evidence records that."
    )

    def plan(self, lake: Reader) -> Plan:
        request = lake.state.erasure.get(self.id)
        if request.state is not ErasureState.OPEN:
            raise Conflict(f"request {request.id} is already {request.state}", _HINTS[request.state])
        actions: list[Action] = []
        refused: list[Finding] = []
        tables = tables_of(request)
        together = sorted(uuid for _, uuid in tables)
        for table, uuid in tables:
            name = find_table(lake, table, uuid)
            if name is not None:
                actions.append(prove_action.action_for(lake, name, lake.tables.load(name), (request.id,), together))
            elif self.accept_missing:
                actions.append(prove_action.action_for_gone(lake, table, uuid, (request.id,), together))
            else:
                refused.append(
                    Finding(
                        table,
                        f"the table of request {request.id} is no longer in the catalog, so nothing can be proved; "
                        "--accept-missing records that and allows closing the request",
                    )
                )
        return Plan(self.kind(), request.id, tuple(actions), (), tuple(refused))

    def holds(self, action: Action, lake: Reader) -> bool:
        return prove_action.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return prove_action.apply(action, lake)

    def tidy(self, action: Action, lake: Writer) -> None:
        super().tidy(action, lake)
        unmark_ended(action, lake)

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        return lake.kept(ThisRun).concluded(result)
