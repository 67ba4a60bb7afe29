"""Hides that are missing: rows of open requests that were hidden once and that a branch shows again.

A rollback to a version from before, a branch made at an old tag, or a rollback by another engine brings them back.
Metadata and footers of hide files tell which requests are suspects; only for those are rows looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.engine.history.working_branch import is_working
from lakewarden.engine.rows.position_deletes import served_requests
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.hidden.lost_rows import hidden_by
from lakewarden.features.erasure.hidden.visible_rows import VisibleRows
from lakewarden.lifecycle.journal import known_to
from lakewarden.records.erasure import ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader


def hidden_once(lake: Reader, table: Table) -> dict[str, dict[int, str]]:
    """The open requests whose rows were hidden in a table, and the snapshots that did it, with their branches."""
    uuid = str(table.metadata.table_uuid)
    asked = {request.id for request in lake.state.erasure.list([ErasureState.OPEN], uuid)}
    found: dict[str, dict[int, str]] = {}
    for evidence in lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=uuid) if asked else ():
        by = None if evidence.document.get("carried") else hidden_by(lake, table, evidence)
        for request in asked & set(evidence.requests) if by is not None else ():
            found.setdefault(request, {})[by or 0] = str(evidence.document["branch"])
    return found


def suspects(lake: Reader, table: Table) -> list[str]:
    """Requests that a branch may show again.

    It left a commit behind that hid them there, or it neither descends from one nor has their hide files. What arrived
    after a hide is for the next one, and not looked for here.
    """
    once = hidden_once(lake, table)
    there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    found: set[str] = set()
    for branch in _branches(lake, table) if once else ():
        head = table.snapshot_by_name(branch)
        line = set(ancestors(table, head.snapshot_id)) if head is not None else set()
        found |= {r for r, by in once.items() if any(on == branch for s, on in by.items() if s in there - line)}
        astray = {request for request, snapshots in once.items() if not snapshots.keys() & line} - found
        if astray and head is not None:
            files = lake.files.of(table, head)
            served = frozenset[str]().union(*(served_requests(d.path, files.opened) for d in files.deletes))
            found |= astray - served
    return sorted(found)


def rows_shown_again(lake: Reader, name: TableName, table: Table) -> int:
    """How many rows that were hidden once branches show again; the branch that shows most counts."""
    requests = suspects(lake, table)
    if not requests:
        return 0
    heads = [head for branch in _branches(lake, table) if (head := table.snapshot_by_name(branch)) is not None]
    try:
        shown = VisibleRows(lake, name, table, requests).at(heads)
    except LakewardenError:
        return 0  # files that cannot be read are reported by others
    return max((each.rows for each in shown.values()), default=0)


def hidden_for_nobody(lake: Reader, table: Table, at: Snapshot) -> list[str]:
    """The withdrawn requests whose rows a version hides still: it is from before they were withdrawn."""
    withdrawn = {one.id for one in lake.state.erasure.list([ErasureState.WITHDRAWN], str(table.metadata.table_uuid))}
    if not withdrawn:
        return []
    files = lake.files.of(table, at)
    served = frozenset[str]().union(*(served_requests(delete.path, files.opened) for delete in files.deletes))
    return sorted(served & withdrawn)


def _branches(lake: Reader, table: Table) -> list[str]:
    refs = table.metadata.refs
    is_ours = known_to(lake.journal)
    return [
        ref for ref in sorted(refs) if str(refs[ref].snapshot_ref_type) == "branch" and not is_working(ref, is_ours)
    ]
