"""`erasure withdraw`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.features.erasure.entry import RequestDetail, detail
from lakewarden.lifecycle.request import Control, Positional
from lakewarden.lifecycle.tombstones import ErasureState

if TYPE_CHECKING:
    from lakewarden.lifecycle.runner import Runner


class Withdraw(Control[RequestDetail]):
    """Take a request for erasure back: its rows are seen again, and its values are forgotten."""

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def act(self, runner: Runner) -> RequestDetail:
        now = runner.reader.clock()
        return detail(runner.tombstones.move(self.id, ErasureState.WITHDRAWN, now), now)
