"""`erasure prove`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lakewarden.errors import Conflict
from lakewarden.features.erasure.proofs import prove_action
from lakewarden.features.erasure.proofs.proof_records import ThisRun
from lakewarden.features.erasure.requests.current_names import find_table, tables_of
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Positional, TableOperation
from lakewarden.records.erasure import ErasureRequest, ErasureState

_HINTS = {
    ErasureState.CLOSED: "A clean proof closed it, and its values are forgotten. lakewarden erasure watch notices "
    "them if they come back.",
    ErasureState.WITHDRAWN: "Its values are forgotten: nobody can look for them.",
}


class Prove(TableOperation):
    """Look through all that is stored of a request's tables for what it asks to erase. A clean proof closes it.

    Every object is read: data and delete files, manifests, metadata and statistics, what no version leads to, what is
    in quarantine, and earlier versions that a bucket keeps. Where anything is left the exit code is 3, and the places
    are listed. --plan shows first how much there is to read.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")
    accept_missing: bool = Field(
        False, description="Let tables that are gone from the catalog count as proved. The record says so."
    )

    def plan(self, lake: Reader) -> Plan:
        request = lake.state.erasure.get(self.id)
        if request.state is not ErasureState.OPEN:
            raise Conflict(f"request {request.id} is {request.state} already", _HINTS[request.state])
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
                refused.append(Finding(table, _gone(request, table)))
        return Plan(self.kind(), request.id, tuple(actions), (), tuple(refused))

    def holds(self, action: Action, lake: Reader) -> bool:
        return prove_action.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return prove_action.apply(action, lake)

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        return lake.kept(ThisRun).concluded(result)


def _gone(request: ErasureRequest, table: str) -> str:
    return (
        f"the table that request {request.id} is about is no longer in the catalog, so nothing can be proved of it; "
        f"--accept-missing writes that down and lets the request be closed"
    )
