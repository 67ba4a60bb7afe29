"""Row and file counts from snapshot summaries, without reading a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import notes_of

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot


def live_rows(snapshot: Snapshot | None) -> int | None:
    """Rows that a reader sees: the summary's records minus its position deletes; unknown with equality deletes."""
    if snapshot is None:
        return 0
    records, masked = total(snapshot, "records"), total(snapshot, "position-deletes") or 0
    if records is None or total(snapshot, "equality-deletes"):
        return None
    return max(records - masked, 0)


def total(snapshot: Snapshot | None, key: str) -> int | None:
    """One of the totals of a snapshot's summary; none if its writer did not record it."""
    return number(notes_of(snapshot), f"total-{key}")


def number(properties: Mapping[str, str], key: str) -> int | None:
    value = properties.get(key, "")
    return int(value) if value.isascii() and value.isdigit() else None
