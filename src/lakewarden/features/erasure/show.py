"""`erasure show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.features.erasure.entry import RequestDetail, detail
from lakewarden.lifecycle.request import Positional, Question

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


class Show(Question[RequestDetail]):
    """Show a request for erasure: which keys of which tables, by when, and how far it is. Never its values."""

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def ask(self, lake: Reader) -> RequestDetail:
        return detail(lake.tombstones.get(self.id), lake.clock())
