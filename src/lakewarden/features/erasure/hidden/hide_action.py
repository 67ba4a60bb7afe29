"""Hiding rows from every engine: one action a branch, which writes one hide file for each data file and publishes them.

A hide file takes over the rows of the one that its data file had before. A data file that another writer rewrites
meanwhile sends the action back to looking. Where only Spark can write a table's deletes, it deletes the rows itself:
these do not come back when a request is withdrawn, and the plan says so.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.route import Route, route_of_manifests
from lakewarden.engine.catalog.snapshots import MAIN, stamped
from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.delete_files import Mask, check_takes_deletes
from lakewarden.engine.commit.publish import check_identity
from lakewarden.engine.history.working_branch import is_working
from lakewarden.engine.rows.position_deletes import file_name, write
from lakewarden.engine.storage.erasure_mark import leave_mark, refuse_foreign_mark
from lakewarden.errors import CatalogUnavailable, LakewardenError, StalePlan
from lakewarden.features.erasure.hidden.hidden_positions import entry
from lakewarden.features.erasure.hidden.lost_rows import hidden_by
from lakewarden.features.erasure.hidden.missing_hides import hidden_for_nobody, hidden_once, suspects
from lakewarden.features.erasure.hidden.revealing import reveal
from lakewarden.features.erasure.hidden.visible_rows import Shown, ShownIn, VisibleRows
from lakewarden.features.erasure.requests.action_requests import record_evidence, requests_of
from lakewarden.features.erasure.requests.spelling import respell
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.journal import known_to
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.records.erasure import ErasureRequest, ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.lifecycle.ground import Reader, Writer

HIDE = "hide"
_WRITERS = 8
_ROUNDS = 5  # times that rows are looked up again whose files others wrote anew
_EARLIER = "earlier versions still show these rows to whoever asks for one, until lakewarden erasure purge"


def plan_for(lake: Reader, kind: str, name: TableName, named: Sequence[str], now: bool) -> Plan:
    """What is to be hidden in one table, on which branches; and what cannot be."""
    table = lake.tables.load(name)
    asked = lake.state.erasure.list([ErasureState.OPEN], str(table.metadata.table_uuid))
    requests = sorted((r for r in asked if not named or r.id in named), key=lambda request: request.id)
    if not requests or not table.metadata.refs:
        return Plan(kind, str(name))
    check_takes_deletes(table, str(name))
    route = route_of_manifests(lake.tables.route(table, name), table)
    waiting = [r for r in requests if route.needs_spark and not now and r.waits(lake.clock())]
    ids = [request.id for request in requests if request not in waiting]
    refs = table.metadata.refs
    found = VisibleRows(lake, name, table, ids).at(_snapshots(table, refs))
    branches = [ref for ref in sorted(refs, key=lambda ref: (ref != MAIN, ref)) if _is_branch(table, ref)]
    branches = [ref for ref in branches if not is_working(ref, known_to(lake.journal))]
    actions = [_action(table, name, branch, found[refs[branch].snapshot_id], route) for branch in branches]
    actions = [action for action in actions if action.estimate.rows]
    warnings = [
        *(_waits(name, request) for request in waiting),
        *_tags(table, name, found),
        *([_EARLIER] if actions else []),
    ]
    return Plan(kind, str(name), tuple(actions), tuple(warnings))


def missing(lake: Reader, kind: str, name: TableName, table: Table) -> tuple[Action, ...]:
    """What hides rows again that were hidden once and that a branch shows, as after a rollback by another engine."""
    requests = suspects(lake, table)
    return plan_for(lake, kind, name, requests, now=True).actions if requests else ()


def after_rollback(lake: Reader, name: TableName, table: Table, to: Snapshot) -> tuple[tuple[Action, ...], list[str]]:
    """What hides rows again once main is at an earlier version in which they are not hidden, and warnings."""
    refuse_foreign_mark(lake.storage(name.lake), name, table, lake.state.erasure.identity())
    requests = sorted(hidden_once(lake, table))
    shown = VisibleRows(lake, name, table, requests).at([to])[to.snapshot_id] if requests else Shown()
    warnings = [
        f"this version hides rows of request {request}, which was withdrawn: to show them again afterwards, "
        f"lakewarden erasure withdraw {request}"
        for request in hidden_for_nobody(lake, table, to)
    ]
    if not shown.rows:
        return (), warnings
    route = route_of_manifests(lake.tables.route(table, name), table)
    warnings.insert(
        0,
        f"this version shows {_counted(shown.rows, 'row')} of {_counted(len(shown.requests), 'open erasure request')}, "
        "hidden now: they are hidden again in the next commit, and other engines see them until then",
    )
    return (_action(table, name, MAIN, shown, route),), warnings


def holds(action: Action, lake: Reader) -> bool:
    """Whether the branch shows no row any more of those that were to be hidden."""
    name = lake.tables.name(action.subject)
    shown = _looked(action, lake, name, lake.tables.load(name))[1]
    if action.route == SPARK_SQL and shown.has_equality_deletes and _is_told(action, lake):
        return not shown.without_equality_deletes().rows  # which of the others equality deletes mask, Spark has seen
    return not shown.rows


def apply(action: Action, lake: Writer) -> Outcome:
    name = lake.tables.name(action.subject)
    for _ in range(_ROUNDS):
        table = lake.tables.load(name)
        check_identity(table, action.subject, str(action.arguments["uuid"]))
        _check_route(action, lake, name, table)
        leave_mark(lake.storage(name.lake), table, lake.state.erasure.identity())
        respell(lake, name, table, requests_of(action))
        visible, shown = _looked(action, lake, name, table)
        if not shown.rows:
            return Outcome()
        with visible.veil.over_errors():
            outcome = (_deleted if action.route == SPARK_SQL else _masked)(action, lake, table, shown)
        if outcome is not None:
            return outcome
    raise StalePlan(
        f"files of {action.subject} were written anew by others each time their rows had been looked up",
        "Nothing was hidden on this branch. Try again when fewer write to it.",
    )


def _looked(action: Action, lake: Reader, name: TableName, table: Table) -> tuple[VisibleRows, Shown]:
    """What an action's branch shows now of its requests' rows: nothing of those that are not open any more."""
    visible = VisibleRows(lake, name, table, action.texts("requests"))
    head = table.snapshot_by_name(str(action.arguments["branch"]))
    return visible, visible.at([head])[head.snapshot_id] if head is not None else Shown()


def _masked(action: Action, lake: Writer, table: Table, shown: Shown) -> Outcome | None:
    """Write the delete files and publish them; nothing where a data file was written anew meanwhile."""
    branch = str(action.arguments["branch"])
    written = _written(lake, table, shown)
    added = [file for file, _ in written.values()]
    reach("hide.written")
    before = _earlier(action, lake, table)
    rows = Counter(before.get("rows", {})) + Counter(shown.by_request())
    facts: dict[str, Any] = {
        "branch": branch,
        "snapshot": None,
        "rows": dict(sorted(rows.items())),
        "files": [*before.get("files", ()), *(_told(path, file, each) for path, (file, each) in written.items())],
        "route": action.route,
    }
    record_evidence(lake, action, EvidenceKind.HIDDEN, shown.requests, facts)  # before the commit, in case of a kill
    change = Mask(
        table=action.subject,
        uuid=str(action.arguments["uuid"]),
        added=tuple(added),
        inputs={each.file.path: each.file.deletes_identity for each in shown.files},
        branch=branch,
        replaced=frozenset(path for each in shown.files for path in each.hide_files),
    )
    try:
        snapshot = lake.commits.publish(change)
    except CatalogUnavailable:
        raise  # it may have landed: a second run looks
    except LakewardenError as error:
        for path in written:
            table.io.delete(path)
        if isinstance(error, StalePlan):
            return None
        raise
    record_evidence(lake, action, EvidenceKind.HIDDEN, shown.requests, {**facts, "snapshot": snapshot})
    _give_back(action, lake, shown.requests)
    return Outcome({"rows_hidden": shown.rows, "delete_files_written": len(added), "branches_changed": 1})


def _earlier(action: Action, lake: Writer, table: Table) -> Mapping[str, Any]:
    """What a run of the same action recorded that was killed after its commit."""
    told = lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=str(action.arguments["uuid"]))
    own = [each for each in told if (each.operation, each.action) == (lake.stamp.operation, action.id)]
    return own[0].document if own and hidden_by(lake, table, own[0]) is not None else {}


def _give_back(action: Action, lake: Writer, requests: Sequence[str]) -> None:
    """Show again what was just hidden for a request that was withdrawn in the very moment."""
    for request in lake.state.erasure.many(requests):
        if request.state is ErasureState.WITHDRAWN:
            reveal(lake, action.subject, str(action.arguments["uuid"]), request)


def _deleted(action: Action, lake: Writer, table: Table, shown: Shown) -> Outcome | None:
    """Let Spark delete the rows by file and position; nothing where others wrote some of these files anew meanwhile."""
    branch, view = str(action.arguments["branch"]), f"lakewarden_{action.id}_rows"
    statements = lake.statements(action.subject)
    facts: dict[str, Any] = {"branch": branch, "snapshot": None, "rows": shown.by_request(), "files": []}
    facts["route"] = action.route
    record_evidence(lake, action, EvidenceKind.HIDDEN, shown.requests, facts)  # before the commit, in case of a kill
    statements.view(view, [(e.file.path, at) for e in shown.files for at in sorted(e.all_positions)])
    try:
        with statements.telling(lake.stamp.properties()):
            statements.delete_rows(branch, view)
    finally:
        statements.drop_view(view)
    table = lake.tables.load(action.subject)
    left = _looked(action, lake, lake.tables.name(action.subject), table)[1]
    before = {each.file.path for each in shown.files}
    if left.without_equality_deletes().rows or not {each.file.path for each in left.files} <= before:
        return None
    facts |= {"snapshot": stamped(table, lake.stamp), "done": True}
    record_evidence(lake, action, EvidenceKind.HIDDEN, shown.requests, facts)
    return Outcome({"rows_hidden": shown.rows, "branches_changed": 1})


def _is_told(action: Action, lake: Reader) -> bool:
    told = lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=str(action.arguments["uuid"]))
    return any(evidence.action == action.id and evidence.document.get("done") for evidence in told)


def _check_route(action: Action, lake: Reader, name: TableName, table: Table) -> None:
    now = route_of_manifests(lake.tables.route(table, name), table)
    if now.name != action.route:
        raise StalePlan(
            f"the plan is stale: {action.subject} has another format now", "Nothing was hidden. Plan again."
        )


def _written(lake: Writer, table: Table, shown: Shown) -> Mapping[str, tuple[AddedFile, ShownIn]]:
    """One hide file for each data file: with the rows that are to be hidden, and those that are hidden already."""
    folder, token = staging_folder(table, lake.stamp), secrets.token_hex(4)

    def one(number: int, each: ShownIn) -> tuple[str, AddedFile]:
        path = f"{folder}/{file_name(lake.stamp, token, number)}"
        rows = {each.file.path: each.all_positions | each.hidden}
        return path, write(table.io, path, rows, each.file, frozenset(each.positions).union(*each.hide_files.values()))

    written: dict[str, tuple[AddedFile, ShownIn]] = {}
    with ThreadPoolExecutor(_WRITERS, thread_name_prefix="hide") as writers:
        made = writers.map(one, range(len(shown.files)), shown.files)
        for each, (path, file) in zip(shown.files, made, strict=True):
            written[path] = (file, each)
            lake.progress(len(written), len(shown.files), "delete files written")
    return written


def _told(path: str, added: AddedFile, each: ShownIn) -> dict[str, Any]:
    """What is recorded of a hide file: how many rows it newly hides for which request, and which."""
    rows = {request: len(at) for request, at in sorted(each.positions.items())}
    return {"path": path, "rows": added.file.record_count, "hides": rows, **entry(each.file.path, each.all_positions)}


def _action(table: Table, name: TableName, branch: str, shown: Shown, route: Route) -> Action:
    target, uuid = str(name), str(table.metadata.table_uuid)
    requests = shown.requests
    return Action(
        verb=HIDE,
        subject=target,
        lease=table_lease(uuid),
        says=f"hide {_counted(shown.rows, 'row')} of {_counted(len(requests), 'request')} on branch {branch}"
        + (", for good" if route.needs_spark else ""),
        arguments={
            "uuid": uuid,
            "branch": branch,
            "head": str(table.metadata.refs[branch].snapshot_id),
            "requests": tuple(requests),
        },
        requires=(TableIs(target, uuid),),
        expects={"rows_hidden": shown.rows},
        estimate=Estimate(files=len(shown.files), rows=shown.rows, bytes=sum(e.file.bytes for e in shown.files)),
        route=route.name,
        because=_because(table, route),
    )


def _because(table: Table, route: Route) -> str:
    if not route.needs_spark:
        return ""
    mode = table.metadata.properties.get("write.delete.mode", "copy-on-write")
    return f"{route.because}, which deletes these rows as the table says ({mode}); withdrawing does not bring them back"


def _snapshots(table: Table, refs: Iterable[str]) -> list[Any]:
    found = {table.metadata.refs[ref].snapshot_id: table.snapshot_by_name(ref) for ref in refs}
    return [snapshot for snapshot in found.values() if snapshot is not None]


def _is_branch(table: Table, ref: str) -> bool:
    return str(table.metadata.refs[ref].snapshot_ref_type) == "branch"


def _tags(table: Table, name: TableName, found: dict[int, Shown]) -> list[str]:
    tags = [ref for ref in sorted(table.metadata.refs) if not _is_branch(table, ref)]
    showing = [tag for tag in tags if found[table.metadata.refs[tag].snapshot_id].rows]
    some = ", ".join(showing[:8]) + (f" and {len(showing) - 8} more" if showing[8:] else "")
    return [f"{name}: tags cannot be changed, and show these rows until a purge: {some}"] if showing else []


def _waits(name: TableName, request: ErasureRequest) -> str:
    return (
        f"{name}: rows of request {request.id} are not hidden before {request.grace_until:%Y-%m-%d %H:%M}Z: here they "
        "would not come back if it were withdrawn; --now hides them all the same"
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
