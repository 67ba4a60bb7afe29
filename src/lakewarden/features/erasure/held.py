"""Data files that must stay as they are: rows in them are hidden, and come back if their request is withdrawn.

Whoever writes files anew asks here first. Only a request that is closed, whose rows are erased, holds nothing any more;
one that is withdrawn and whose rows are still hidden is about to bring them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.position_deletes import request_of
from lakewarden.errors import NotFound
from lakewarden.lifecycle.tombstones import ErasureState

if TYPE_CHECKING:
    from lakewarden.engine.live_files import SnapshotFiles
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.tombstones import ErasureRequest


def held_files(lake: Reader, files: SnapshotFiles) -> frozenset[str]:
    """The data files of a version that have rows which are hidden for a request, unless that is closed."""
    asked = {request for delete in files.deletes if (request := request_of(delete.path))}
    holding = _holding(lake, asked)
    if not holding:
        return frozenset()
    hiding = {delete.path for delete in files.deletes if request_of(delete.path) in holding}
    return frozenset(file.path for file in files.data if any(delete.path in hiding for delete in file.deletes))


def _holding(lake: Reader, requests: set[str]) -> set[str]:
    """Those that are not closed, or that only another control database knows."""
    try:
        return {request.id for request in lake.tombstones.many(sorted(requests)) if _holds(request)}
    except NotFound:
        return {request for request in requests if _is_unknown_or_holds(lake, request)}


def _is_unknown_or_holds(lake: Reader, request: str) -> bool:
    try:
        return _holds(lake.tombstones.get(request))
    except NotFound:
        return True


def _holds(request: ErasureRequest) -> bool:
    return request.state is not ErasureState.CLOSED
