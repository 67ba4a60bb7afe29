"""Finds rows of open requests that were hidden and that a branch shows again.

A rollback to an earlier version, also by another engine, or a branch created at an old tag makes them visible again.
Metadata and footers of hide files narrow down the requests; rows are searched only for those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.engine.history.working_branch import is_working
from lakewarden.engine.rows.position_deletes import named_positions, served_requests
from lakewarden.engine.rows.shares import Owners
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.hidden.hidden_positions import hidden_positions
from lakewarden.features.erasure.hidden.lost_rows import hidden_by
from lakewarden.features.erasure.hidden.restoring import are_added
from lakewarden.features.erasure.hidden.visible_rows import VisibleRows
from lakewarden.lifecycle.journal import known_to
from lakewarden.quantities import to_millis
from lakewarden.records.erasure import ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader


def hidden_once(lake: Reader, table: Table) -> dict[str, dict[int, str]]:
    """The open requests whose rows were hidden in a table, with the snapshots that hid them and their branches."""
    uuid = str(table.metadata.table_uuid)
    asked = {request.id for request in lake.state.erasure.list([ErasureState.OPEN], uuid)}
    found: dict[str, dict[int, str]] = {}
    for evidence in lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=uuid) if asked else ():
        by = None if evidence.document.get("carried") else hidden_by(lake, table, evidence)
        for request in asked & set(evidence.requests) if by is not None else ():
            found.setdefault(request, {})[by or 0] = str(evidence.document["branch"])
    return found


def suspects(lake: Reader, table: Table) -> list[str]:
    """Requests whose rows a branch may show again.

    Either a commit that hid them is no longer on the branch, or the branch has neither such a commit nor their hide
    files. Rows that arrived after a hide are not searched here: the next hide covers them.
    """
    once = hidden_once(lake, table)
    there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    found: set[str] = set()
    for branch in _branches(lake, table) if once else ():
        head = table.snapshot_by_name(branch)
        line = set(ancestors(table, head.snapshot_id)) if head is not None else set()
        found |= {r for r, by in once.items() if any(on == branch for s, on in by.items() if s in there - line)}
        unhidden = {request for request, snapshots in once.items() if not snapshots.keys() & line} - found
        if unhidden and head is not None:
            found |= unhidden - _served(lake, table, head)
    return sorted(found)


def rows_shown_again(lake: Reader, name: TableName, table: Table) -> int:
    """How many hidden rows are visible again, on the branch with most of them."""
    requests = suspects(lake, table)
    if not requests:
        return 0
    heads = [head for branch in _branches(lake, table) if (head := table.snapshot_by_name(branch)) is not None]
    try:
        shown = VisibleRows(lake, name, table, requests).at(heads)
    except LakewardenError:
        return 0  # unreadable files are reported elsewhere
    return max((each.rows for each in shown.values()), default=0)


def hidden_withdrawn(lake: Reader, table: Table, at: Snapshot) -> list[str]:
    """The withdrawn requests whose rows a version still hides, because it is from before the withdrawal."""
    withdrawn = {one.id for one in lake.state.erasure.list([ErasureState.WITHDRAWN], str(table.metadata.table_uuid))}
    return sorted(_served(lake, table, at) & withdrawn) if withdrawn else []


def hidden_by_going_back(lake: Reader, name: TableName, table: Table, to: Snapshot) -> dict[str, int]:
    """How many rows of withdrawn requests main shows, and an earlier version of a table in format v3 hides.

    The withdrawal added them again as new rows, or replaced their hide files before the table was upgraded.
    """
    found: dict[str, int] = {}
    for one in lake.state.erasure.list([ErasureState.WITHDRAWN], str(table.metadata.table_uuid)):
        hidden = _masked(lake, name, table, one.id, to)
        try:
            if hidden and not _lacks_added(lake, table, one.id, to):
                still = _masked(lake, name, table, one.id, table.current_snapshot())
                hidden = {path: rows - still.get(path, set()) for path, rows in hidden.items()}
        except LakewardenError:  # main is damaged, and nobody knows what it shows: a rollback may be the way out
            continue
        if rows := sum(map(len, hidden.values())):
            found[one.id] = rows
    return found


def _lacks_added(lake: Reader, table: Table, request: str, to: Snapshot) -> bool:
    """Whether a withdrawal has added rows to main again since a version."""
    if are_added(lake, table, request) is False:
        return False
    there = are_added(lake, table, request, to)
    recorded = lake.state.erasure.evidence(
        [EvidenceKind.RESTORED], request=request, uuid=str(table.metadata.table_uuid)
    )
    return there is False or (there is None and all(to.timestamp_ms < to_millis(each.at) for each in recorded))


def _masked(lake: Reader, name: TableName, table: Table, request: str, at: Snapshot | None) -> dict[str, set[int]]:
    """The rows that were hidden for a withdrawn request, but for no open one, and that a version masks."""
    known, uuid, storage = hidden_positions(lake, table, [request]), table.metadata.table_uuid, lake.storage(name.lake)
    asked = lake.state.erasure.list([ErasureState.OPEN], str(uuid))
    owners = Owners({one.id: lake.state.erasure.hidden(str(uuid), [one.id]) for one in asked})
    masked: dict[str, set[int]] = {}
    for file in lake.files.of(table, at).data if known else ():
        if hidden := known.get(place_digest(file.path), set()):
            named = (named_positions(storage, delete, [file.path]).get(file.path, set()) for delete in file.deletes)
            others = owners.positions(table.metadata, storage, file).values()
            masked[file.path] = (hidden & set[int]().union(*named)).difference(*others)
    return masked


def _served(lake: Reader, table: Table, at: Snapshot) -> frozenset[str]:
    """The requests for which hide files are live in a snapshot."""
    files = lake.files.of(table, at)
    return frozenset[str]().union(*(served_requests(delete.path, files.opened) for delete in files.deletes))


def _branches(lake: Reader, table: Table) -> list[str]:
    refs = table.metadata.refs
    is_ours = known_to(lake.journal)
    return [
        ref for ref in sorted(refs) if str(refs[ref].snapshot_ref_type) == "branch" and not is_working(ref, is_ours)
    ]
