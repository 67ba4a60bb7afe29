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


def held_files(lake: Reader, files: SnapshotFiles) -> frozenset[str]:
    """The data files of a version that have rows which are hidden for a request, unless that is closed."""
    asked = {request for delete in files.deletes if (request := request_of(delete.path))}
    holding = {request for request in asked if _holds(lake, request)}
    if not holding:
        return frozenset()
    return frozenset(
        file.path for file in files.data if any(request_of(delete.path) in holding for delete in file.deletes)
    )


def _holds(lake: Reader, request: str) -> bool:
    try:
        return lake.tombstones.get(request).state is not ErasureState.CLOSED
    except NotFound:  # a request that another control database knows
        return True
