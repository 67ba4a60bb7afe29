"""Rows that hides masked, remembered by data file and position: what tells a hidden row from one that was deleted.

Other engines merge the deletes of a data file when they delete from it, and drop the hide file. They did not see the
hidden rows, so they cannot have deleted those: what is remembered here is hidden still, whichever file names it now.
Positions are kept in the evidence of each hide, under a digest of the data file's path, which may hold a value.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.locations import place_digest
from lakewarden.features.erasure.hidden.lost_rows import hidden_by, line_of
from lakewarden.records.erasure import Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader, Writer

Hidden = Mapping[str, set[int]]
"""Positions by the digest of a data file's path."""


def entry(path: str, positions: Iterable[int]) -> dict[str, Any]:
    """What evidence keeps of the rows that are hidden in one data file."""
    import numpy

    at = numpy.diff(numpy.sort(numpy.fromiter(positions, numpy.int64)), prepend=numpy.int64(0))
    return {"data": place_digest(path), "at": base64.b64encode(zlib.compress(at.tobytes())).decode()}


def hidden_positions(lake: Reader, table: Table, requests: Collection[str], branch: str | None = None) -> Hidden:
    """The rows that were hidden for one of these requests: on a branch's own line, or on any branch."""
    found: dict[str, set[int]] = {}
    told = lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=str(table.metadata.table_uuid)) if requests else ()
    wanted = set(requests)
    for each in (each for each in told if not wanted.isdisjoint(each.requests) and _landed(lake, table, each, branch)):
        for file in (file for file in each.document["files"] if "at" in file):
            found.setdefault(file["data"], set()).update(_positions(file["at"]))
    return found


def carry(
    lake: Writer, name: str, uuid: str, step: str, requests: Collection[str], files: Mapping[str, Collection[int]]
) -> None:
    """Remember hidden rows in a rewritten data file, or for other requests than the one they were hidden for.

    `step` tells apart what one operation carries: what it carried before under the same name is replaced.
    """
    entries = [entry(path, positions) for path, positions in sorted(files.items()) if positions]
    if not entries or not requests:
        return
    document: dict[str, Any] = {
        "carried": True,
        "branch": None,
        "snapshot": None,
        "rows": {},
        "files": entries,
        "route": "",
    }
    asked = tuple(sorted(requests))
    lake.state.erasure.record(
        Evidence(EvidenceKind.HIDDEN, name, uuid, lake.stamp.operation, step, lake.clock(), asked, document)
    )


def _positions(packed: str) -> list[int]:
    import numpy

    steps = numpy.frombuffer(zlib.decompress(base64.b64decode(packed)), numpy.int64)
    return [int(at) for at in numpy.cumsum(steps)]


def _landed(lake: Reader, table: Table, each: Evidence, branch: str | None) -> bool:
    """Whether rows were hidden on a branch's line; of a commit that has expired, on the branch it was made on."""
    if each.document.get("carried"):
        return True
    since = hidden_by(lake, table, each)
    if since is None or branch is None:
        return since is not None
    if table.snapshot_by_id(since) is None:
        return bool(each.document["branch"] == branch)
    return since in line_of(table, branch, since)
