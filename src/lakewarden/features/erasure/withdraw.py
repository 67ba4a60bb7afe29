"""`erasure withdraw`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.features.erasure import uncovering
from lakewarden.lifecycle.plan import Action, Outcome, Plan
from lakewarden.lifecycle.request import Operation, Positional

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer


class Withdraw(Operation):
    """Take a request for erasure back: its rows are seen again by everyone, and its values are forgotten.

    Delete files that hide its rows from other engines leave every branch first. Once rows of it were purged it is
    refused. Where others have written files with hidden rows anew meanwhile, it says which rows do not come back.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def plan(self, lake: Reader) -> Plan:
        return uncovering.plan_for(lake, self.kind(), lake.tombstones.get(self.id))

    def holds(self, action: Action, lake: Reader) -> bool:
        return uncovering.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return uncovering.apply(action, lake)
