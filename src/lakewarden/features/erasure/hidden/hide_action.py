"""Hides rows from every engine: one action per branch writes one hide file per data file and publishes them.

A new hide file includes the rows of the previous one for its data file. If another writer rewrites a data file in the
meantime, the action searches again. If only Spark can write a table's deletes, Spark deletes the rows: a withdrawal
does not bring those back, and the plan says so.
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
from lakewarden.features.erasure.hidden.missing_hides import (
    hidden_by_going_back,
    hidden_once,
    hidden_withdrawn,
    suspects,
)
from lakewarden.features.erasure.hidden.revealing import reveal
from lakewarden.features.erasure.hidden.visible_rows import Shown, ShownIn, VisibleRows
from lakewarden.features.erasure.requests.action_requests import record_evidence
from lakewarden.features.erasure.requests.request_keys import replaced
from lakewarden.features.erasure.requests.spelling import respell
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.journal import known_to
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted
from lakewarden.records.erasure import ErasureRequest, ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.lifecycle.ground import Reader, Writer

HIDE = "hide"
_WRITERS = 8
_ROUNDS = 5  # attempts to hide rows whose files other writers rewrite
_EARLIER = "earlier versions still show these rows until lakewarden erasure purge"


def plan_for(lake: Reader, kind: str, name: TableName, named: Sequence[str], now: bool) -> Plan:
    """The plan that hides rows in one table: an action per branch, and warnings about what stays visible."""
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
        *replaced(table.metadata, requests),
        *_tags(table, name, found),
        *([_EARLIER] if actions else []),
    ]
    return Plan(kind, str(name), tuple(actions), tuple(warnings))


def missing(lake: Reader, kind: str, name: TableName, table: Table) -> tuple[Action, ...]:
    """Actions that hide rows again that a branch shows, such as after a rollback by another engine."""
    requests = suspects(lake, table)
    return plan_for(lake, kind, name, requests, now=True).actions if requests else ()


def after_rollback(lake: Reader, name: TableName, table: Table, to: Snapshot) -> tuple[tuple[Action, ...], list[str]]:
    """Actions that hide rows again after main moved to a version that shows them, and warnings."""
    refuse_foreign_mark(lake.storage(name.lake), name, table, lake.state.erasure.identity())
    requests = sorted(hidden_once(lake, table))
    shown = VisibleRows(lake, name, table, requests).at([to])[to.snapshot_id] if requests else Shown()
    route = route_of_manifests(lake.tables.route(table, name), table)
    warnings = _hides_withdrawn(lake, name, table, to, route)
    if not shown.rows:
        return (), warnings
    warnings.insert(
        0,
        f"this version shows {counted(shown.rows, 'row')} of {counted(len(shown.requests), 'open erasure request')} "
        "that are hidden now: the next commit hides them again, and other engines see them until then",
    )
    return (_action(table, name, MAIN, shown, route),), warnings


def _hides_withdrawn(lake: Reader, name: TableName, table: Table, to: Snapshot, route: Route) -> list[str]:
    """Sentences for withdrawn requests whose rows a version hides, with what shows them again."""
    if not route.needs_spark:
        return [
            f"this version hides rows of request {request}, which was withdrawn; to show them again: "
            f"lakewarden erasure withdraw {request}"
            for request in hidden_withdrawn(lake, table, to)
        ]
    return [  # nothing removes rows from deletes there, so a second withdrawal is refused
        f"this version hides {counted(rows, 'row')} of request {request}, which was withdrawn; in format "
        f"v{table.metadata.format_version} only undoing the rollback, as shown below, shows "
        f"{'it' if rows == 1 else 'them'} again"
        for request, rows in sorted(hidden_by_going_back(lake, name, table, to).items())
    ]


def holds(action: Action, lake: Reader) -> bool:
    """Whether the branch shows none of the rows to hide."""
    name = lake.tables.name(action.subject)
    shown = _looked(action, lake, name, lake.tables.load(name))[1]
    if action.route == SPARK_SQL and shown.has_equality_deletes and _is_done(action, lake):
        return not shown.without_equality_deletes().rows  # Spark has applied the equality deletes of the others
    return not shown.rows


def apply(action: Action, lake: Writer) -> Outcome:
    name = lake.tables.name(action.subject)
    for _ in range(_ROUNDS):
        table = lake.tables.load(name)
        check_identity(table, action.subject, str(action.arguments["uuid"]))
        _check_route(action, lake, name, table)
        leave_mark(lake.storage(name.lake), table, lake.state.erasure.identity())
        respell(lake, name, table, action.texts("requests"))
        visible, shown = _looked(action, lake, name, table)
        if not shown.rows:
            return Outcome()
        with visible.redaction.of_errors():
            outcome = (_deleted if action.route == SPARK_SQL else _masked)(action, lake, table, shown)
        if outcome is not None:
            return outcome
    raise StalePlan(
        f"other writers rewrote files of {action.subject} each time their rows had been found",
        "Nothing was hidden on this branch. Try again when there are fewer writers.",
    )


def _looked(action: Action, lake: Reader, name: TableName, table: Table) -> tuple[VisibleRows, Shown]:
    """The rows of the action's open requests that its branch shows now."""
    visible = VisibleRows(lake, name, table, action.texts("requests"))
    head = table.snapshot_by_name(str(action.arguments["branch"]))
    return visible, visible.at([head])[head.snapshot_id] if head is not None else Shown()


def _masked(action: Action, lake: Writer, table: Table, shown: Shown) -> Outcome | None:
    """Write and publish the delete files; returns none if a data file was rewritten in the meantime."""
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
        "files": [*before.get("files", ()), *(_file_entry(path, file, each) for path, (file, each) in written.items())],
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
        raise  # the commit may have landed: a second run checks
    except LakewardenError as error:
        for path in written:
            table.io.delete(path)
        if isinstance(error, StalePlan):
            return None
        raise
    record_evidence(lake, action, EvidenceKind.HIDDEN, shown.requests, {**facts, "snapshot": snapshot})
    _reveal_withdrawn(action, lake, shown.requests)
    return Outcome({"rows_hidden": shown.rows, "delete_files_written": len(added), "branches_changed": 1})


def _earlier(action: Action, lake: Writer, table: Table) -> Mapping[str, Any]:
    """What an earlier run of this action recorded, if it was killed after its commit."""
    evidence = lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=str(action.arguments["uuid"]))
    own = [each for each in evidence if (each.operation, each.action) == (lake.stamp.operation, action.id)]
    return own[0].document if own and hidden_by(lake, table, own[0]) is not None else {}


def _reveal_withdrawn(action: Action, lake: Writer, requests: Sequence[str]) -> None:
    """Show rows again that were just hidden for a request that was withdrawn at the same time."""
    for request in lake.state.erasure.many(requests):
        if request.state is ErasureState.WITHDRAWN:
            reveal(lake, action.subject, str(action.arguments["uuid"]), request)


def _deleted(action: Action, lake: Writer, table: Table, shown: Shown) -> Outcome | None:
    """Let Spark delete the rows by file and position; returns none if a file was rewritten in the meantime."""
    branch, view = str(action.arguments["branch"]), f"lakewarden_{action.id}_rows"
    statements = lake.statements(action.subject)
    facts: dict[str, Any] = {"branch": branch, "snapshot": None, "rows": shown.by_request(), "files": []}
    facts["route"] = action.route
    record_evidence(lake, action, EvidenceKind.HIDDEN, shown.requests, facts)  # before the commit, in case of a kill
    statements.view(view, [(e.file.path, at) for e in shown.files for at in sorted(e.all_positions)])
    try:
        with statements.with_summary(lake.stamp.properties()):
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


def _is_done(action: Action, lake: Reader) -> bool:
    evidence = lake.state.erasure.evidence([EvidenceKind.HIDDEN], uuid=str(action.arguments["uuid"]))
    return any(each.action == action.id and each.document.get("done") for each in evidence)


def _check_route(action: Action, lake: Reader, name: TableName, table: Table) -> None:
    now = route_of_manifests(lake.tables.route(table, name), table)
    if now.name != action.route:
        raise StalePlan(
            f"the plan is stale: the format version of {action.subject} changed", "Nothing was hidden. Plan again."
        )


def _written(lake: Writer, table: Table, shown: Shown) -> Mapping[str, tuple[AddedFile, ShownIn]]:
    """One hide file per data file, with the rows to hide and those that are already hidden."""
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


def _file_entry(path: str, added: AddedFile, each: ShownIn) -> dict[str, Any]:
    """The evidence of a hide file: how many rows it newly hides for each request, and their positions."""
    rows = {request: len(at) for request, at in sorted(each.positions.items())}
    return {"path": path, "rows": added.file.record_count, "hides": rows, **entry(each.file.path, each.all_positions)}


def _action(table: Table, name: TableName, branch: str, shown: Shown, route: Route) -> Action:
    target, uuid = str(name), str(table.metadata.table_uuid)
    requests = shown.requests
    return Action(
        verb=HIDE,
        subject=target,
        lease=table_lease(uuid),
        says=f"hide {counted(shown.rows, 'row')} of {counted(len(requests), 'request')} on branch {branch}"
        + (", permanently" if route.needs_spark else ""),
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
    return f"{route.because}, which deletes these rows ({mode}); withdrawing does not bring them back"


def _snapshots(table: Table, refs: Iterable[str]) -> list[Any]:
    found = {table.metadata.refs[ref].snapshot_id: table.snapshot_by_name(ref) for ref in refs}
    return [snapshot for snapshot in found.values() if snapshot is not None]


def _is_branch(table: Table, ref: str) -> bool:
    return str(table.metadata.refs[ref].snapshot_ref_type) == "branch"


def _tags(table: Table, name: TableName, found: dict[int, Shown]) -> list[str]:
    tags = [ref for ref in sorted(table.metadata.refs) if not _is_branch(table, ref)]
    showing = [tag for tag in tags if found[table.metadata.refs[tag].snapshot_id].rows]
    some = ", ".join(showing[:8]) + (f" and {len(showing) - 8} more" if showing[8:] else "")
    return [f"{name}: tags cannot be changed and show these rows until a purge: {some}"] if showing else []


def _waits(name: TableName, request: ErasureRequest) -> str:
    return (
        f"{name}: rows of request {request.id} are not hidden before {request.grace_until:%Y-%m-%d %H:%M}Z, because a "
        "withdrawal could not bring them back here; --now hides them anyway"
    )
