"""`erasure show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.requests.current_names import current_name, tables_of
from lakewarden.features.erasure.requests.entry import RequestDetail, detail
from lakewarden.features.erasure.requests.request_keys import replaced
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question
from lakewarden.records.erasure import ErasureRequest, ErasureState, EvidenceKind


class Show(Question[RequestDetail]):
    """Show an erasure request: its keys, deadline and progress, but never its values.

    For each table it shows the rows hidden and erased and the newest proof, then every operation for the request.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def ask(self, lake: Reader) -> RequestDetail:
        request = lake.state.erasure.get(self.id)
        evidence = lake.state.erasure.evidence(request=request.id)
        known = [each for each in evidence if each.kind is not EvidenceKind.INTENT]
        notes = _notes(lake, request) if request.state is ErasureState.OPEN else ()
        return detail(request, lake.clock(), known, list(notes))


def _notes(lake: Reader, request: ErasureRequest) -> Iterator[str]:
    """What of the tables is no longer as it was when the request was registered."""
    for table, uuid in tables_of(request):
        try:
            metadata = lake.tables.load(current_name(lake, table, uuid)).metadata
        except LakewardenError:
            continue  # it was dropped, which `progress` shows
        yield from replaced(metadata, [request])
