"""The error for a proof that found traces: where they are, and what to do if a purge cannot remove them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from lakewarden.engine.storage.quarantine import OWN_FOLDER
from lakewarden.errors import TracesLeft
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.proof.scan import NotRead, Place, Proof

_LISTED = 100  # places that an error lists; the evidence has all
_IN_MESSAGE = 5  # places that its message names
_ONLY_BY_HAND = {
    "name of a branch or tag": "Rename or remove the branch or tag that contains the value in its name",
    "table property": "Change or remove the table property that contains the value",
    "location": "Move the table to a location that does not contain the value",
    "schemas": "Change the comment or default that contains the value, and remove earlier schemas",
}
"""What to do about places in a table's metadata that a purge does not change."""


def traces_left(
    table: str, state: Table, proof: Proof, requests: Sequence[str], age_of_strays: timedelta
) -> TracesLeft:
    """The error for a proof that is not clean."""
    values = f"values of {f'request {requests[0]}' if len(requests) == 1 else f'{len(requests)} requests'}"
    if proof.places:
        verb = "holds" if len(proof.places) == 1 else "hold"
        what = f"{counted(len(proof.places), 'place')} still {verb} {values}: {_some(state, proof.places)}"
        hint = _hint(table, proof, requests)
    elif proof.young:
        what = f"new unreferenced files hold {values}: {_some(state, proof.young)}"
        hint = f"A writer may be about to commit them. {_when(proof, age_of_strays)}"
    else:
        first = proof.not_read[0]
        unread = counted(len(proof.not_read), "object")
        what = f"nothing is proved: {unread} cannot be read, such as {first.object}: {first.why}"
        hint = _hint_for_unread(table, first)
    return TracesLeft(
        f"{table}: {what}",
        hint,
        places=[asdict(place) for place in (*proof.places, *proof.young)[:_LISTED]],
        not_read=[asdict(each) for each in proof.not_read[:_LISTED]],
    )


def _hint(table: str, proof: Proof, requests: Sequence[str]) -> str:
    purge = "lakewarden erasure purge " + " ".join(f"--request {request}" for request in requests)
    first = proof.places[0]
    in_metadata = [place.where for place in proof.places if place.object == proof.metadata]
    for where, by_hand in _ONLY_BY_HAND.items():
        # earlier metadata files, which a purge deletes, contain the value as well and come first
        if first.where.startswith(where) and any(place.startswith(where) for place in in_metadata):
            return f"{by_hand}, then: {purge}"
    if first.where.startswith("snapshot summary"):
        return f"{purge}. If a summary still has the value, expire that version: lakewarden retention expire {table}"
    if all(place.where.startswith("bytes") for place in proof.places):
        return f"{purge}. If another column holds the value, request that too: lakewarden erasure request {table}"
    return purge


def _hint_for_unread(table: str, first: NotRead) -> str:
    delete = f"lakewarden orphan delete {table}"
    if f"/{OWN_FOLDER}/" in first.object:
        return f"Files in quarantine are searched until they are deleted: {delete} (--now ends their grace period)"
    return (
        "Fix them, or move them out of the table's location. "
        f"If no version references them: lakewarden orphan quarantine {table}, then {delete}"
    )


def _some(table: Table, places: Sequence[Place]) -> str:
    more = f"; and {len(places) - _IN_MESSAGE:,} more" if len(places) > _IN_MESSAGE else ""
    return "; ".join(_shown(table, place) for place in places[:_IN_MESSAGE]) + more


def _shown(table: Table, place: Place) -> str:
    version = f", version {place.version}" if place.version and not place.live else ""
    return f"{place.object.removeprefix(table.metadata.location).lstrip('/')}{version}: {place.where}"


def _when(proof: Proof, age_of_strays: timedelta) -> str:
    if proof.youngest is None:
        return "Try again later."
    return f"Purge again after {proof.youngest + age_of_strays:%Y-%m-%d %H:%M} UTC, when they count as orphans."
