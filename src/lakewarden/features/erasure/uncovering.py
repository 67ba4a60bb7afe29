"""Taking a request back: in each of its tables its delete files leave all branches in one commit; then it has ended.

Delete files are known by their names, which carry the request. Whatever stopped a withdrawal halfway, a second one
goes on: while a request's delete files are live anywhere, it is not over. Which rows do not come back, because others
have written their files anew, is worked out in `losses.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.changes import Unmask
from lakewarden.engine.position_deletes import request_of
from lakewarden.errors import Conflict, StalePlan, TableNotFound
from lakewarden.features.erasure.losses import losses
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Action, Estimate, Outcome, Plan, Requirement
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.tombstones import ErasureRequest, ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader, Writer

REVEAL, WITHDRAW = "reveal", "withdraw"


@dataclass(frozen=True)
class Masks:
    """The delete files of one request that are live in a table, and where."""

    rows: dict[str, int]
    """Of each file, how many rows it hides."""
    branches: tuple[str, ...]
    tags: tuple[str, ...]


def plan_for(lake: Reader, kind: str, request: ErasureRequest) -> Plan:
    """What brings the rows of a request back, and ends it."""
    if request.state is ErasureState.CLOSED:
        raise Conflict(f"request {request.id} is closed already", "Its rows are erased.")
    refuse_purged(lake, request)
    actions: list[Action] = []
    warnings: list[str] = []
    there: list[TableIs] = []
    for name, uuid in tables_of(request):
        table = _table(lake, name, uuid)
        if table is None:
            warnings.append(f"{name} no longer exists: nothing of it comes back")
            continue
        there.append(TableIs(name, uuid))
        masks = live_masks(lake, table, request.id)
        if masks.branches:
            actions.append(_reveal(table, name, request.id, masks))
        if masks.tags:
            warnings.append(f"{name}: tags made while the rows were hidden stay without them: {', '.join(masks.tags)}")
        warnings += losses(lake, name, table, request.id)
    if request.state is ErasureState.OPEN:
        actions.append(_end(request, *(actions[-1].requires if actions else there)))
    elif not actions:
        raise Conflict(f"request {request.id} is withdrawn already", "Only an open request can be changed.")
    return Plan(kind, request.id, tuple(actions), tuple(warnings))


def holds(action: Action, lake: Reader) -> bool:
    """Whether no branch of the table hides rows of the request, or the request has ended."""
    request = lake.tombstones.get(str(action.arguments["request"]))
    if action.verb == WITHDRAW:
        return request.state is ErasureState.WITHDRAWN
    return not live_masks(lake, lake.tables.load(action.table), request.id).branches


def apply(action: Action, lake: Writer) -> Outcome:
    request = lake.tombstones.get(str(action.arguments["request"]))
    refuse_purged(lake, request)
    if action.verb == REVEAL:
        masks = live_masks(lake, lake.tables.load(action.table), request.id)
        uuid = str(action.arguments["uuid"])
        branches = lake.commits.unmask(Unmask(action.table, uuid, frozenset(masks.rows)))
        return Outcome({"branches_changed": branches, "delete_files_removed": len(masks.rows)})
    _check_shown(lake, request, "It stays open")
    reach("withdraw.revealed")
    lake.tombstones.move(request.id, ErasureState.WITHDRAWN, lake.clock())
    _check_shown(lake, request, "It is withdrawn")  # somebody may have hidden them in the very moment
    return Outcome({"requests_withdrawn": 1})


def _check_shown(lake: Reader, request: ErasureRequest, so_far: str) -> None:
    for name, uuid in tables_of(request):
        table = _table(lake, name, uuid)
        if table is not None and live_masks(lake, table, request.id).branches:
            raise StalePlan(
                f"rows of request {request.id} are hidden in {name} still, or again",
                f"{so_far}. Withdraw it once more: lakewarden erasure withdraw {request.id}",
            )


def tables_of(request: ErasureRequest) -> list[tuple[str, str]]:
    """The tables that a request is about, by name and uuid."""
    return list(dict.fromkeys((key.table, key.uuid) for key in request.keys))


def live_masks(lake: Reader, table: Table, request: str) -> Masks:
    """A request's delete files, wherever they are live."""
    rows: dict[str, int] = {}
    refs: list[str] = []
    for ref in sorted(table.metadata.refs):
        deletes = lake.files.of(table, table.snapshot_by_name(ref)).deletes
        own = {delete.path: delete.rows for delete in deletes if request_of(delete.path) == request}
        rows |= own
        refs += [ref] if own else []
    kinds = {ref: str(table.metadata.refs[ref].snapshot_ref_type) for ref in refs}
    branches = tuple(ref for ref in refs if kinds[ref] == "branch")
    return Masks(rows, branches, tuple(ref for ref in refs if kinds[ref] == "tag"))


def refuse_purged(lake: Reader, request: ErasureRequest) -> None:
    """Refuse where rows were erased already, or may have been by a purge that has not ended."""
    told = lake.tombstones.evidence([EvidenceKind.PURGED, EvidenceKind.INTENT], request=request.id)
    purged = [each for each in told if each.kind is EvidenceKind.PURGED and each.document.get("files")]
    if purged:
        tables = sorted({each.table for each in purged})
        raise Conflict(
            f"rows of request {request.id} are erased already in {', '.join(tables)}, and cannot come back",
            "A proof closes it: lakewarden erasure prove.",
        )
    begun = [
        each for each in told if each.kind is EvidenceKind.INTENT and _may_have_erased(lake, each.table, each.document)
    ]
    if begun:
        raise Conflict(
            f"a purge has begun to erase rows of request {request.id} in {begun[0].table}",
            f"Finish it: lakewarden operation resume {begun[0].operation}",
        )


def _may_have_erased(lake: Reader, name: str, document: object) -> bool:
    """Whether versions that a purge was to let go are gone: only its commit takes all of them."""
    meant = set(document["snapshots"]) if isinstance(document, dict) else set()
    try:
        there = {snapshot.snapshot_id for snapshot in lake.tables.load(name).metadata.snapshots}
    except TableNotFound:
        return False
    return bool(meant) and not meant & there


def _table(lake: Reader, name: str, uuid: str) -> Table | None:
    """The table that was meant, unless it is gone."""
    try:
        table = lake.tables.load(name)
    except TableNotFound:
        return None
    return table if str(table.metadata.table_uuid) == uuid else None


def _reveal(table: Table, name: str, request: str, masks: Masks) -> Action:
    uuid, rows = str(table.metadata.table_uuid), sum(masks.rows.values())
    return Action(
        verb=REVEAL,
        table=name,
        says=f"show the rows of {request} again on {_named(masks.branches)}",
        arguments={"uuid": uuid, "request": request},
        requires=(TableIs(name, uuid),),
        estimate=Estimate(files=len(masks.rows), rows=rows),
    )


def _end(request: ErasureRequest, *tables: Requirement) -> Action:
    """The last action, which needs the lease of a table: nobody hides rows there meanwhile."""
    held = [need for need in tables if isinstance(need, TableIs)][:1]
    return Action(
        verb=WITHDRAW,
        table=held[0].table if held else request.keys[0].table,
        says=f"withdraw {request.id} and forget its values",
        arguments={"request": request.id},
        requires=tuple(held),
    )


def _named(branches: Sequence[str]) -> str:
    return f"branch{'' if len(branches) == 1 else 'es'} {', '.join(branches)}"
