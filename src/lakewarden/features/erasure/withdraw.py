"""`erasure withdraw`: in each table one commit shows the rows again on all branches; then the request is withdrawn.

`hidden/revealing.py` determines which delete files are replaced and which rows stay hidden for other requests. A second
withdrawal resumes an interrupted one: it is not done while hide files for the request are live. Rows that do not come
back because other writers have rewritten their files are reported by `hidden/lost_rows.py`. If the table was upgraded
to format v3 since, `hidden/restoring.py` adds the rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lakewarden.engine.base.route import Route, route_of_manifests
from lakewarden.engine.rows.position_deletes import served_requests
from lakewarden.errors import Conflict, StalePlan
from lakewarden.features.erasure.hidden import restoring
from lakewarden.features.erasure.hidden.lost_rows import lost_rows
from lakewarden.features.erasure.hidden.revealing import Revealed, keep_hidden_for_others, reveal, revealed
from lakewarden.features.erasure.requests.current_names import find_table, tables_of
from lakewarden.features.erasure.requests.mark_action import unmark, unmark_ended
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.basics import PUBLISH
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Positional, TableOperation
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.records.erasure import ErasureRequest, ErasureState, Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader, Writer

REVEAL, WITHDRAW = "reveal", "withdraw"


class Withdraw(TableOperation):
    """Withdraw an erasure request: its rows become visible again, and its values are deleted.

    First, delete files that hide its rows from other engines are removed from every branch. A request whose rows were
    purged cannot be withdrawn. If other writers have rewritten files with hidden rows, the plan lists the rows that do
    not come back.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")

    def plan(self, lake: Reader) -> Plan:
        request = lake.state.erasure.get(self.id)
        if request.state is ErasureState.CLOSED:
            raise Conflict(f"request {request.id} is already closed", "Its rows are erased.")
        refuse_purged(lake, request)
        actions: list[Action] = []
        warnings: list[str] = []
        there: list[TableIs] = []
        held: TableIs | None = None  # the table of the last action, which then already holds its lease
        for asked, uuid in tables_of(request):
            found = _table(lake, asked, uuid)
            if found is None:
                warnings.append(f"{asked} no longer exists: none of its rows come back")
                continue
            name, table = found
            there.append(TableIs(name, uuid))
            if _needs_spark(table):
                adding, lost = restoring.planned(lake, name, table, request)
                actions += adding
                held = there[-1] if adding else held
                warnings += lost
            elif found_hidden := revealed(lake, name, table, request):
                actions.append(_reveal(lake, table, name, request.id, found_hidden))
                held = there[-1]
            if tags := hiding_refs(lake, table, request.id, "tag"):
                warnings.append(f"{name}: tags created while the rows were hidden still hide them: {', '.join(tags)}")
            warnings += lost_rows(lake, name, table, request.id)
        if request.state is ErasureState.OPEN:
            actions.append(_end(request, *([held] if held else there)))
        elif not actions:
            raise Conflict(f"request {request.id} is already withdrawn", "Only open requests can be withdrawn.")
        return Plan(self.kind(), request.id, tuple(actions), tuple(warnings))

    def holds(self, action: Action, lake: Reader) -> bool:
        """Whether no branch of the table hides rows of the request, or the request is withdrawn."""
        request = lake.state.erasure.get(str(action.arguments["request"]))
        if action.verb == WITHDRAW:
            return request.state is ErasureState.WITHDRAWN
        if action.verb == restoring.RESTORE:
            return request.state is ErasureState.WITHDRAWN or restoring.holds(action, lake)
        return not revealed(lake, action.subject, lake.tables.load(action.subject), request)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        request = lake.state.erasure.get(str(action.arguments["request"]))
        harmless = refuse_purged(lake, request)
        if action.verb == restoring.RESTORE:
            return restoring.apply(action, lake, request)
        if action.verb == REVEAL:
            branches, files = reveal(lake, action.subject, str(action.arguments["uuid"]), request)
            return Outcome({"branches_changed": branches, "delete_files_removed": files})
        _check_shown(lake, request, "It stays open")
        for asked, uuid in tables_of(request):
            if found := _table(lake, asked, uuid):
                keep = restoring.keep_hidden_for_others if _needs_spark(found[1]) else keep_hidden_for_others
                keep(lake, *found, request, action.id)
        reach("withdraw.revealed")
        lake.state.erasure.move(request.id, ErasureState.WITHDRAWN, lake.clock(), harmless)
        reach("withdraw.ended")
        unmark(lake, [request])
        _check_shown(lake, request, "It is withdrawn")  # another process may have hidden them just now
        return Outcome({"requests_withdrawn": 1})

    def tidy(self, action: Action, lake: Writer) -> None:
        super().tidy(action, lake)
        unmark_ended(action, lake)


def _check_shown(lake: Reader, request: ErasureRequest, so_far: str) -> None:
    for asked, uuid in tables_of(request):
        found = _table(lake, asked, uuid)
        if found is not None and not _needs_spark(found[1]) and hiding_refs(lake, found[1], request.id, "branch"):
            raise StalePlan(
                f"rows of request {request.id} are still hidden in {found[0]}, or hidden again",
                f"{so_far}. Withdraw it again: lakewarden erasure withdraw {request.id}",
            )


def _needs_spark(table: Table) -> bool:
    """Whether delete files cannot be replaced: rows are added again instead."""
    return route_of_manifests(Route(PUBLISH), table).needs_spark


def hiding_refs(lake: Reader, table: Table, request: str, kind: Literal["branch", "tag"]) -> list[str]:
    """The branches or tags on which hide files for a request are live."""
    refs: list[str] = []
    for name, ref in sorted(table.metadata.refs.items()):
        files = lake.files.of(table, table.snapshot_by_name(name)) if str(ref.snapshot_ref_type) == kind else None
        if files and any(request in served_requests(delete.path, files.opened) for delete in files.deletes):
            refs.append(name)
    return refs


def refuse_purged(lake: Reader, request: ErasureRequest) -> Sequence[Evidence]:
    """Refuse if rows were erased, or may have been erased by an unfinished purge.

    Returns the evidence of purges that erased nothing. Running purges are looked up after the evidence was read and
    before the tables are loaded: a purge that starts later records evidence that is then missing from the result.
    """
    evidence = lake.state.erasure.evidence([EvidenceKind.PURGED, EvidenceKind.INTENT], request=request.id)
    purged = [each for each in evidence if each.kind is EvidenceKind.PURGED and each.document.get("files")]
    if purged:
        tables = sorted({each.table for each in purged})
        raise Conflict(
            f"rows of request {request.id} are already erased from {', '.join(tables)} and cannot come back",
            "A clean proof closes the request: lakewarden erasure prove.",
        )
    at_work = lake.state.erasure.at_work(request.id)
    if at_work:
        raise Conflict(
            f"operation {at_work[0]} is about to erase rows of request {request.id}",
            f"Wait for it, or stop it: lakewarden operation cancel {at_work[0]}",
        )
    begun = [each for each in evidence if each.kind is EvidenceKind.INTENT and _may_have_erased(lake, each)]
    if begun:
        raise Conflict(
            f"a purge has started to erase rows of request {request.id} from {begun[0].table}",
            f"Finish it: lakewarden operation resume {begun[0].operation}",
        )
    return evidence


def _may_have_erased(lake: Reader, intent: Evidence) -> bool:
    """Whether a version with rows to erase is gone: the commit of a purge expires them."""
    meant = set(intent.document["dirty"])
    found = _table(lake, intent.table, intent.uuid)
    return found is not None and not meant <= {snapshot.snapshot_id for snapshot in found[1].metadata.snapshots}


def _table(lake: Reader, asked: str, uuid: str) -> tuple[str, Table] | None:
    """The table and its current name, unless it is gone."""
    name = find_table(lake, asked, uuid)
    return None if name is None else (str(name), lake.tables.load(name))


def _reveal(lake: Reader, table: Table, name: str, request: str, found: Sequence[Revealed]) -> Action:
    uuid, paths = str(table.metadata.table_uuid), {one.file.path for one in found}
    branches = [
        ref
        for ref, at in sorted(table.metadata.refs.items())
        if str(at.snapshot_ref_type) == "branch"
        and any(delete.path in paths for delete in lake.files.of(table, table.snapshot_by_name(ref)).deletes)
    ]
    return Action(
        verb=REVEAL,
        subject=name,
        lease=table_lease(uuid),
        says=f"show the rows of {request} again on {_named(branches)}",
        arguments={"uuid": uuid, "request": request},
        requires=(TableIs(name, uuid),),
        estimate=Estimate(files=len(found), rows=sum(one.rows for one in found)),
    )


def _end(request: ErasureRequest, *tables: TableIs) -> Action:
    """The last action. It holds the lease of a table, so that no rows are hidden there in the meantime."""
    first = tables[0] if tables else request.keys[0]
    return Action(
        verb=WITHDRAW,
        subject=first.table,
        lease=table_lease(first.uuid),
        says=f"withdraw {request.id} from {', '.join(table for table, _ in tables_of(request))} and delete its values",
        arguments={"request": request.id},
        requires=tables[:1],
    )


def _named(branches: Sequence[str]) -> str:
    return f"branch{'' if len(branches) == 1 else 'es'} {', '.join(branches)}"
