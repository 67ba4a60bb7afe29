"""What a proof found, as an error that tells where it is and what to do about it: not everything goes with a purge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from lakewarden.engine.storage.quarantine import OWN_FOLDER
from lakewarden.errors import TracesLeft

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.proof.scan import NotRead, Place, Proof

_TOLD = 100  # places that an error names; the evidence has all
_IN_WORDS = 5  # that its message names
_ONLY_BY_HAND = {
    "name of a branch or tag": "Rename or remove the branch or tag whose name tells it",
    "table property": "Change or remove the table's property that tells it",
    "location": "Move the table to a location that does not tell it",
    "schemas": "Change the comment or default that tells it, and have earlier schemas removed",
}
"""What to do about places in a table's own metadata that no purge changes: it does not know what they mean."""


def traces_left(
    table: str, state: Table, proof: Proof, requests: Sequence[str], age_of_strays: timedelta
) -> TracesLeft:
    """The error for a proof that is not clean."""
    which = f"request {requests[0]} asks" if len(requests) == 1 else f"{len(requests)} requests ask"
    if proof.places:
        count = f"{len(proof.places):,} {'place' if len(proof.places) == 1 else 'places'}"
        verb = "holds" if len(proof.places) == 1 else "hold"
        what = f"{count} still {verb} what {which} to erase, as {_some(state, proof.places)}"
        hint = _hint(table, proof, requests)
    elif proof.young:
        what = f"new files that no version leads to hold what {which} to erase, as {_some(state, proof.young)}"
        hint = f"A writer may be about to commit them. {_when(proof, age_of_strays)}"
    else:
        first = proof.not_read[0]
        what = f"nothing is proved: {len(proof.not_read):,} objects cannot be read, as {first.object}: {first.why}"
        hint = _hint_for_unread(table, first)
    return TracesLeft(
        f"{table}: {what}",
        hint,
        places=[asdict(place) for place in (*proof.places, *proof.young)[:_TOLD]],
        not_read=[asdict(unread) for unread in proof.not_read[:_TOLD]],
    )


def _hint(table: str, proof: Proof, requests: Sequence[str]) -> str:
    purge = "lakewarden erasure purge " + " ".join(f"--request {request}" for request in requests)
    first = proof.places[0]
    in_metadata = [place.where for place in proof.places if place.object == proof.metadata]
    for where, by_hand in _ONLY_BY_HAND.items():
        # earlier metadata files, which go with a purge, tell it as well: they come first
        if first.where.startswith(where) and any(place.startswith(where) for place in in_metadata):
            return f"{by_hand}, then: {purge}"
    if first.where.startswith("snapshot summary"):
        return f"{purge}. A version whose summary still tells it then must expire: lakewarden retention expire {table}"
    if all(place.where.startswith("bytes") for place in proof.places):
        return f"{purge}. Where another column holds it, ask for that one too: lakewarden erasure request {table}"
    return purge


def _hint_for_unread(table: str, first: NotRead) -> str:
    delete = f"lakewarden orphan delete {table}"
    if f"/{OWN_FOLDER}/" in first.object:
        return f"What is in quarantine is looked through until it is deleted: {delete} (--now: before its grace ends)"
    return (
        "Mend them, or move them out of the table's location. "
        f"Files that no version leads to: lakewarden orphan quarantine {table}, then {delete}"
    )


def _some(table: Table, places: Sequence[Place]) -> str:
    more = f"; and {len(places) - _IN_WORDS:,} more" if len(places) > _IN_WORDS else ""
    return "; ".join(_shown(table, place) for place in places[:_IN_WORDS]) + more


def _shown(table: Table, place: Place) -> str:
    version = f", version {place.version}" if place.version and not place.live else ""
    return f"{place.object.removeprefix(table.metadata.location).lstrip('/')}{version}: {place.where}"


def _when(proof: Proof, age_of_strays: timedelta) -> str:
    if proof.youngest is None:
        return "Try again later."
    return f"Purge again after {proof.youngest + age_of_strays:%Y-%m-%d %H:%M} UTC, when they count as left behind."
