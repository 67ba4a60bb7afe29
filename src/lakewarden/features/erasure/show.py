"""`erasure show`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.features.erasure.requests.entry import RequestDetail, detail
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question
from lakewarden.records.erasure import EvidenceKind


class Show(Question[RequestDetail]):
    """Show an erasure request: its keys, deadline and progress, but never its values.

    For each table it shows the rows hidden and erased and the newest proof, then every operation for the request.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def ask(self, lake: Reader) -> RequestDetail:
        request = lake.state.erasure.get(self.id)
        evidence = lake.state.erasure.evidence(request=request.id)
        return detail(request, lake.clock(), [each for each in evidence if each.kind is not EvidenceKind.INTENT])
