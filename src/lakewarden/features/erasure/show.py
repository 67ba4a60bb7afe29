"""`erasure show`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.features.erasure.requests.entry import RequestDetail, detail
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question
from lakewarden.records.erasure import EvidenceKind


class Show(Question[RequestDetail]):
    """Show a request for erasure: its keys and deadline, and how far it is. Never its values.

    Of each table: rows hidden and erased, and the newest proof. Then every operation that worked on it.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def ask(self, lake: Reader) -> RequestDetail:
        request = lake.state.erasure.get(self.id)
        told = [
            each for each in lake.state.erasure.evidence(request=request.id) if each.kind is not EvidenceKind.INTENT
        ]
        return detail(request, lake.clock(), told)
