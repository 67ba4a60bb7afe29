"""Values that Lakewarden wrote beside a request's tables after the request was made: it is not closed with these.

Materialising a view set for an erased instance records a partition without rows, and a backfill puts bad rows aside.
The request covers them from then on, so that the next purge erases and proves them as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.errors import TracesLeft
from lakewarden.features.erasure.proofs.proof_records import NOT_SEARCHED
from lakewarden.features.erasure.requests.asked_values import asked_values, names_of
from lakewarden.features.erasure.requests.keys_beside import Beside, Found, Texts
from lakewarden.features.erasure.requests.mark_action import settle_mark
from lakewarden.features.shared.side_tables import is_beside
from lakewarden.lifecycle.failpoints import reach
from lakewarden.records.erasure import Evidence, EvidenceKind

if TYPE_CHECKING:
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest

_WHERE = "values that Lakewarden keeps there, written after the request was made"
_METHOD = "what Lakewarden keeps beside the tables of the request was looked up when it was to be closed"


def later_values(lake: Reader, requests: Sequence[ErasureRequest]) -> dict[str, Texts]:
    """By request, the values beside its tables that it does not cover."""
    names = names_of(lake, (key for request in requests for key in request.keys))
    beside = Beside(lake, names)

    def new(some: Sequence[ErasureRequest]) -> Texts:
        return _new(lake, beside.found(asked_values(lake, some, names), some[0].folding), some)

    groups: dict[object, list[ErasureRequest]] = {}
    for request in requests:  # many requests of the same tables are searched for at once
        groups.setdefault((frozenset(key.uuid for key in request.keys), request.folding), []).append(request)
    return {one.id: texts for group in groups.values() if new(group) for one in group if (texts := new([one]))}


def cover_and_refuse(lake: Writer, action: Action, found: Mapping[str, Texts]) -> None:
    """Let requests cover such values, and raise: they stay open."""
    places: dict[tuple[str, str], list[str]] = {}
    for id, texts in found.items():
        for place in {(key.table, key.uuid) for key in texts}:
            places.setdefault(place, []).append(id)
    with lake.state.together():  # what is covered counts as known: an earlier proof must not stand then
        for id in sorted(found):
            lake.state.erasure.cover(id, found[id])
        reach("prove.covering")
        for (table, uuid), some in places.items():
            _record(lake, action, table, uuid, some)
    reach("prove.covered")
    tables, ids = sorted({table for table, _ in places}), sorted(found)
    for table in tables:
        settle_mark(lake, lake.tables.name(table))
    raise TracesLeft(
        f"{', '.join(tables)} may have values of {', '.join(ids)} that were written after the request was made. "
        "The request covers them from now on and stays open: purge it again",
        f"lakewarden erasure purge {' '.join(f'--request {id}' for id in ids)}",
        places=[{"object": table, "where": _WHERE} for table in tables],
    )


def _record(lake: Writer, action: Action, table: str, uuid: str, requests: Sequence[str]) -> None:
    """Record that an earlier proof of a table, which did not look for these values, no longer counts."""
    place = {"object": table, "version": "", "where": _WHERE, "kind": "data", "live": True}
    document = {**NOT_SEARCHED, "clean": False, "places": [place], "method": [_METHOD]}
    stamp, id = lake.stamp.operation, f"{action.id}-{uuid}"
    lake.state.erasure.record(
        Evidence(EvidenceKind.PROVED, table, uuid, stamp, id, lake.clock(), tuple(requests), document)
    )


def _new(lake: Reader, found: Found, requests: Sequence[ErasureRequest]) -> Texts:
    """What the requests, which have the same tables, do not cover."""
    if found.unread:
        raise TracesLeft(
            f"{', '.join(found.unread)} could not be searched for values of "
            f"{', '.join(request.id for request in requests)}",
            "The request stays open. Fix, rename or drop that table, then: lakewarden erasure prove ID",
            places=[{"object": each, "where": _WHERE} for each in found.unread],
        )
    ids, folding, new = [request.id for request in requests], requests[0].folding, Texts()
    for key, texts in found.texts.items():
        hidden = lake.state.erasure.hidden(key.uuid, ids)
        known = {text for one in hidden if one.field_id == key.field_id for text in one.values}
        if not is_beside(key.table):  # not read there, and every proof looks for spellings that are
            folded = {folding.of(text) for text in known}
            later = [text for text in texts if folding.of(text) not in folded]
        else:
            later = [text for text in texts if text not in known]
        if later:
            new[key] = later
    return new
