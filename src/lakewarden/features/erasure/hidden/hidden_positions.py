"""Positions of hidden rows by data file, recorded to distinguish hidden rows from deleted ones.

When another engine deletes from a data file, it merges the file's deletes and drops the hide file. It did not see the
hidden rows, so it cannot have deleted them: rows recorded here are hidden, whichever delete file lists them now.
The evidence of each hide holds the positions under a digest of the data file's path, since the path may hold a value.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.locations import place_digest
from lakewarden.features.erasure.hidden.lost_rows import hidden_by, is_behind_gap, line_of
from lakewarden.records.erasure import Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader, Writer

Hidden = Mapping[str, set[int]]
"""Positions by the digest of a data file's path."""


def entry(path: str, positions: Iterable[int]) -> dict[str, Any]:
    """The evidence of the hidden rows in one data file."""
    import numpy

    at = numpy.diff(numpy.sort(numpy.fromiter(positions, numpy.int64)), prepend=numpy.int64(0))
    return {"data": place_digest(path), "at": base64.b64encode(zlib.compress(at.tobytes())).decode()}


def hidden_positions(lake: Reader, table: Table, requests: Collection[str], branch: str | None = None) -> Hidden:
    """The rows that were hidden for any of these requests, in the history of a branch or on any branch."""
    found: dict[str, set[int]] = {}
    uuid, wanted = str(table.metadata.table_uuid), set(requests)
    for each in lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=uuid) if requests else ():
        if not wanted.isdisjoint(each.requests) and _landed(lake, table, each, branch):
            for file in (file for file in each.document["files"] if "at" in file):
                found.setdefault(file["data"], set()).update(_positions(file["at"]))
    return found


def carry(
    lake: Writer, name: str, uuid: str, step: str, requests: Collection[str], files: Mapping[str, Collection[int]]
) -> None:
    """Record hidden rows in a rewritten data file, or for other requests than the one they were hidden for.

    An earlier record of the same operation and `step` is replaced.
    """
    entries = [entry(path, positions) for path, positions in sorted(files.items()) if positions]
    if not entries or not requests:
        return
    hide: dict[str, Any] = {"branch": None, "snapshot": None, "rows": {}, "files": entries, "route": ""}
    ids = tuple(sorted(requests))
    lake.state.erasure.record(
        Evidence(
            EvidenceKind.HIDDEN, name, uuid, lake.stamp.operation, step, lake.clock(), ids, {**hide, "carried": True}
        )
    )


def _positions(packed: str) -> list[int]:
    import numpy

    steps = numpy.frombuffer(zlib.decompress(base64.b64decode(packed)), numpy.int64)
    return [int(at) for at in numpy.cumsum(steps)]


def _landed(lake: Reader, table: Table, each: Evidence, branch: str | None) -> bool:
    """Whether a hide is in the history of a branch; if its commit has expired, whether it was made on that branch."""
    if each.document.get("carried"):
        return True
    since = hidden_by(lake, table, each)
    if since is None or branch is None:
        return since is not None
    line = line_of(table, branch, since)
    if table.snapshot_by_id(since) is None or is_behind_gap(table, line, since):
        return bool(each.document["branch"] == branch)
    return since in line
