"""Values that Lakewarden wrote beside a request's tables after the request was made: it is not closed with these.

Materialising a view set for an erased instance records a partition without rows, and a backfill puts bad rows aside.
The request covers them from then on, so that the next purge erases and proves them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.errors import TracesLeft
from lakewarden.features.erasure.proofs.proof_records import NOT_SEARCHED
from lakewarden.features.erasure.requests.asked_values import asked_values
from lakewarden.features.erasure.requests.keys_beside import Texts, keys_beside
from lakewarden.features.erasure.requests.mark_action import settle_mark
from lakewarden.records.erasure import Evidence, EvidenceKind

if TYPE_CHECKING:
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest

_WHERE = "values that Lakewarden keeps there, written after the request was made"
_METHOD = "what Lakewarden keeps beside the tables of the request was looked up when it was to be closed"


def refuse_later_values(lake: Writer, action: Action, requests: Sequence[ErasureRequest]) -> None:
    """Refuse to close requests if there are values beside their tables that they do not cover, and cover these."""
    groups: dict[object, list[ErasureRequest]] = {}
    for request in requests:  # many requests of the same tables are looked up at once
        groups.setdefault((frozenset(key.uuid for key in request.keys), request.folding), []).append(request)
    found: dict[tuple[str, str], list[str]] = {}
    for group in groups.values():
        for request in group if _new(lake, group) else ():
            if new := _new(lake, [request]):
                lake.state.erasure.cover(request.id, new)
                for place in {(key.table, key.uuid) for key in new}:
                    found.setdefault(place, []).append(request.id)
    for (table, uuid), ids in found.items():
        settle_mark(lake, lake.tables.name(table))
        _record(lake, action, table, uuid, ids)
    if found:
        tables, ids = sorted(table for table, _ in found), sorted({id for some in found.values() for id in some})
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


def _new(lake: Reader, requests: Sequence[ErasureRequest]) -> Texts:
    """What the requests, which have the same tables, do not cover."""
    found, unread = keys_beside(lake, asked_values(lake, requests), requests[0].folding)
    if unread:
        raise TracesLeft(
            f"{', '.join(unread)} could not be searched for values of {', '.join(request.id for request in requests)}",
            "The request stays open. Fix, rename or drop that table, then: lakewarden erasure prove ID",
            places=[{"object": each, "where": _WHERE} for each in unread],
        )
    ids, new = [request.id for request in requests], Texts()
    for key, texts in found.items():
        hidden = lake.state.erasure.hidden(key.uuid, ids)
        known = {text for one in hidden if one.field_id == key.field_id for text in one.values}
        if later := [text for text in texts if text not in known]:
            new[key] = later
    return new
