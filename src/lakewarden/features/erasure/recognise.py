"""`erasure recognise`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.engine.rows.keys import canonical, is_of_kind
from lakewarden.errors import BadValue
from lakewarden.features.erasure.requests.spelling import TEXT
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control, Positional, ReadsInput, TakesInput
from lakewarden.records.erasure import ErasureRequest, KeyAsked, TombstoneReader


@dataclass(frozen=True)
class Recognised(Shown):
    """Whether a value belongs to a request, the state of the request, and the journal's record of this question."""

    request: str
    recognised: bool
    state: str
    operation: str


class Recognise(TakesInput, Control[Recognised]):
    """Answer whether a value belongs to a request. Exit code 0 if it does, 3 if it does not.

    The value's keyed digest is compared with those of the request, which are kept after its values are deleted. The
    journal records who asked and the answer, but not the value.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")
    value: Annotated[list[str], ReadsInput()] = Field([], repr=False, description="The value; - reads it from stdin.")

    def act(self, desk: ControlDesk) -> Recognised:
        known = desk.state.erasure
        request = known.get(self.id)
        given = self._input.read((), lambda _: True).values if self._input else self.value
        if len(given) != 1:
            raise BadValue(f"{len(given)} values were given", "Give one value: --value -, and the value on stdin.")
        is_one = any(_is_of(known, request, place, key, given[0]) for place, key in enumerate(request.keys))
        asked = self.model_dump_json(exclude={"value"})
        says = f"checked a value against {request.id}: it {'belongs' if is_one else 'does not belong'} to the request"
        noted = desk.record(request.id, says, asked, {"recognised": is_one})
        return Recognised(request.id, is_one, str(request.state), noted)

    def found(self, answer: Recognised) -> bool:
        return not answer.recognised


def _is_of(tombstones: TombstoneReader, request: ErasureRequest, place: int, key: KeyAsked, value: str) -> bool:
    if not is_of_kind(key.kind, value):
        return False
    [text] = canonical(key.kind, [value], key.path)
    spelled = request.folding.of(text) if key.kind == TEXT else text
    [digest] = tombstones.digested(key.kind, [spelled])
    return digest in tombstones.digests(request.id).get(place, ())
