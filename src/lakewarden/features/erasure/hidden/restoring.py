"""Brings rows back that were hidden before their table was upgraded to format v3.

There only Spark writes deletes, and nothing removes a row from them. So the rows are added to main again, as new rows:
files still hold them until they are rewritten, and Spark reads deleted rows too if asked to. The evidence of each hide
tells which rows these are, whether a hide file still lists them or Spark has merged it into a deletion vector.

Nothing in the table lasts that says that they were added: anybody may expire the commit. So its files are recorded
before it is published. If it is not known afterwards whether it was, the rows are not added a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.catalog.snapshots import MAIN, PUBLISHED_WAP_ID, WAP_ID, notes_of
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.rows.position_deletes import named_positions
from lakewarden.engine.rows.shares import Owners
from lakewarden.engine.rows.spark_filter import deleted_rows
from lakewarden.errors import Conflict, VerificationFailed
from lakewarden.features.erasure.hidden.hidden_positions import carry, hidden_positions
from lakewarden.features.erasure.requests.action_requests import record_evidence
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted
from lakewarden.records.erasure import ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.rows.spark_filter import Places
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest

RESTORE = "restore"


def planned(lake: Reader, name: str, table: Table, request: ErasureRequest) -> tuple[list[Action], list[str]]:
    """What adds the rows of a request to main again, and sentences about those that do not come back."""
    rows = sum(map(len, restorable(lake, name, table, request, MAIN).values()))
    lost = _not_restorable(lake, name, table, request)
    if rows and are_added(lake, table, request.id) is None:
        return [], [_unknown(name, request), *lost]
    return [_action(name, table, request, rows)] if rows else [], lost


def _action(name: str, table: Table, request: ErasureRequest, rows: int) -> Action:
    uuid = str(table.metadata.table_uuid)
    return Action(
        verb=RESTORE,
        subject=name,
        lease=table_lease(uuid),
        says=f"add {counted(rows, 'row')} of {request.id} to main again, as new rows",
        arguments={"uuid": uuid, "request": request.id},
        requires=(TableIs(name, uuid),),
        expects={"rows_restored": rows},
        estimate=Estimate(rows=rows),
        route=SPARK_SQL,
        because=f"they were hidden before the table was upgraded to format v{table.metadata.format_version}",
    )


def restorable(lake: Reader, name: str, table: Table, request: ErasureRequest, branch: str) -> Mapping[str, set[int]]:
    """The rows of a request on a branch that were hidden and that deletes still mask, by data file.

    Without those of other open requests, and of files with equality deletes, which may have deleted them since.
    """
    return _masked(lake, name, table, request, branch)[0]


def are_added(lake: Reader, table: Table, request: str, at: Snapshot | None = None) -> bool | None:
    """Whether rows of a request were added to main, or to a version of it, again; None if that is not known."""
    head = at or table.current_snapshot()
    recorded = lake.state.erasure.evidence(
        [EvidenceKind.RESTORED], request=request, uuid=str(table.metadata.table_uuid)
    )
    if not recorded:
        return False
    line, known = [], {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    before = head.snapshot_id if head is not None else None
    while before in known:
        line.append(known[before])
        before = known[before].parent_snapshot_id
    names = {notes.get(PUBLISHED_WAP_ID) or notes.get(WAP_ID) for notes in map(notes_of, line)}
    live = {place_digest(file.path) for file in lake.files.of(table, head).bare}
    for each in recorded:
        if each.document["commit"] in names or not live.isdisjoint(each.document["files"]):
            return True
    bases = {snapshot.snapshot_id for snapshot in line}
    return False if all(each.document["base"] in bases for each in recorded) else None


def holds(action: Action, lake: Reader) -> bool:
    return bool(are_added(lake, lake.tables.load(action.subject), str(action.arguments["request"])))


def apply(action: Action, lake: Writer, request: ErasureRequest) -> Outcome:
    name = lake.tables.name(action.subject)
    table = lake.tables.load(name)
    if are_added(lake, table, request.id) is None:
        raise Conflict(_unknown(name, request), f"Nothing was changed. lakewarden erasure withdraw {request.id}")
    places = restorable(lake, action.subject, table, request, MAIN)
    found: Places = [(path, position) for path, positions in sorted(places.items()) for position in sorted(positions)]
    staged = lake.staging.stage(action.subject, lambda session: deleted_rows(session, name, found))
    if staged.rows != len(found):
        lake.staging.drop(action.subject, staged.branch)
        raise VerificationFailed(
            f"{name}: {counted(staged.rows, 'row')} of {len(found)} hidden ones could be read",
            "Nothing was published. Do other writers change the table? Withdraw the request again.",
        )
    files = [place_digest(added.file.file_path) for added in staged.added]
    document = {"base": staged.base, "commit": lake.stamp.name, "files": files}
    record_evidence(lake, action, EvidenceKind.RESTORED, [request.id], document)
    reach("withdraw.staged")
    lake.commits.publish(Append(action.subject, str(action.arguments["uuid"]), staged=staged))
    return Outcome({"rows_restored": len(found)})


def _unknown(name: object, request: ErasureRequest) -> str:
    return (
        f"{name}: it is not known whether the hidden rows of {request.id} were added to main again: versions that show "
        "it have expired. They are not added a second time: read the table, and compare with your source"
    )


def keep_hidden_for_others(lake: Writer, name: str, table: Table, request: ErasureRequest, step: str) -> None:
    """Record which rows stay hidden for other requests, before this request is withdrawn."""
    for other, files in _masked(lake, name, table, request, MAIN)[1].items():
        carry(lake, name, str(table.metadata.table_uuid), f"{step}-{other}", [other], files)


def _not_restorable(lake: Reader, name: str, table: Table, request: ErasureRequest) -> list[str]:
    """Sentences for rows in files with equality deletes, and on other branches: Spark publishes to main only."""
    sentences = []
    if deleted := _among_equality_deletes(lake, name, table, request):
        sentences.append(
            f"{name}: up to {counted(deleted, 'row')} on main {'does' if deleted == 1 else 'do'} not come back: "
            "equality deletes apply to their files, and may have deleted them since"
        )
    for branch in sorted(table.metadata.refs):
        if branch == MAIN or str(table.metadata.refs[branch].snapshot_ref_type) != "branch":
            continue
        rows = sum(map(len, restorable(lake, name, table, request, branch).values()))
        if rows:
            sentences.append(
                f"{name}: {counted(rows, 'row')} on branch {branch} {'does' if rows == 1 else 'do'} not come back: in "
                f"format v{table.metadata.format_version} rows are brought back on main only"
            )
    return sentences


def deleted_with_them(lake: Reader, name: str, table: Table, erased: Sequence[str]) -> list[str]:
    """Sentences for a purge on Spark: it rewrites files without the rows that are hidden for other requests."""
    others = lake.state.erasure.list([ErasureState.OPEN], str(table.metadata.table_uuid))
    sentences = []
    for request in (other for other in others if other.id not in erased):
        rows = sum(map(len, restorable(lake, name, table, request, MAIN).values()))
        if rows:
            sentences.append(
                f"{name}: up to {counted(rows, 'row')} that are hidden for {request.id} are deleted too, as Spark "
                "rewrites their files; to keep them, withdraw that request first"
            )
    return sentences


def _among_equality_deletes(lake: Reader, name: str, table: Table, request: ErasureRequest) -> int:
    """How many rows of main that were hidden for a request are in files with equality deletes."""
    known, head = hidden_positions(lake, table, [request.id], MAIN), table.current_snapshot()
    storage, rows = lake.storage(lake.tables.name(name).lake), 0
    for file in lake.files.of(table, head).data if known and head else ():
        hidden = known.get(place_digest(file.path), set())
        if hidden and any(delete.is_equality for delete in file.deletes):
            masks = [delete for delete in file.deletes if not delete.is_equality]
            named = (named_positions(storage, delete, [file.path]).get(file.path, set()) for delete in masks)
            rows += len(hidden & set[int]().union(*named))
    return rows


def _masked(
    lake: Reader, name: str, table: Table, request: ErasureRequest, branch: str
) -> tuple[dict[str, set[int]], dict[str, dict[str, set[int]]]]:
    """The hidden rows that only this request hides, by data file, and those of other open requests, by request."""
    known = hidden_positions(lake, table, [request.id], branch)
    head = table.snapshot_by_name(branch)
    back: dict[str, set[int]] = {}
    shared: dict[str, dict[str, set[int]]] = {}
    if not known or head is None:
        return back, shared
    uuid, storage = str(table.metadata.table_uuid), lake.storage(lake.tables.name(name).lake)
    asked = lake.state.erasure.list([ErasureState.OPEN], uuid)
    owners = Owners({one.id: lake.state.erasure.hidden(uuid, [one.id]) for one in asked})
    for file in lake.files.of(table, head).data:
        hidden = known.get(place_digest(file.path), set())
        if not hidden or any(delete.is_equality for delete in file.deletes):
            continue
        named = (named_positions(storage, delete, [file.path]).get(file.path, set()) for delete in file.deletes)
        rows = owners.positions(table.metadata, storage, file)
        mine = hidden & set[int]().union(*named) & rows.get(request.id, set())
        for other in rows.keys() - {request.id}:
            if both := mine & rows[other]:
                shared.setdefault(other, {})[file.path] = both
        if mine := mine - set[int]().union(*(at for other, at in rows.items() if other != request.id)):
            back[file.path] = mine
    return back, shared
