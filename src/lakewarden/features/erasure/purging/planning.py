"""Plans a purge of one table: which versions and files hold the rows to erase."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.engine.catalog.snapshot_removal import replacements_of
from lakewarden.engine.files.unreachable import is_own
from lakewarden.engine.history.spark_costs import check_nothing_else_goes, check_nothing_staged, costs, lost_columns
from lakewarden.engine.history.working_branch import is_working
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.engine.rows.search import search
from lakewarden.errors import Conflict, TableNotFound
from lakewarden.features.erasure.hidden.held_files import with_former_keys
from lakewarden.features.erasure.hidden.restoring import deleted_with_them
from lakewarden.features.erasure.proofs import prove_action
from lakewarden.features.erasure.proofs.proof_records import ThisRun, to_close
from lakewarden.features.erasure.purging.intent import RefBefore
from lakewarden.features.erasure.purging.stray_copies import refuse_strangers
from lakewarden.features.erasure.requests.request_keys import lost_keys, replaced
from lakewarden.features.erasure.requests.spelling import new_spellings, with_spellings
from lakewarden.features.orphan.judgement import refuse_forbidden
from lakewarden.features.shared.file_sizes import DELTA_ENCODED, policy_of
from lakewarden.lifecycle.action import Action, Estimate, Verdict
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.journal import Progress, known_to
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted, show_size
from lakewarden.records.erasure import EvidenceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.rows.search import Searched
    from lakewarden.features.erasure.requests.due import Due
    from lakewarden.features.orphan.neighbours import Neighbours
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.journal import Record

PURGE = "purge"
_BACKFILLS = ("backfill.run", "migration.apply")
_ALL = 10**9
_SECONDS_PER_GB = 20  # a guess, for the estimate only
_STREAMS = "readers of an expired version, such as streams, must be restarted"


def plan_for(
    lake: Reader, kind: str, due: Due, neighbours: Neighbours, lose_columns: bool = False, anew: bool = False
) -> Plan:
    """The plan that erases a table's rows and proves it; empty if a clean proof still counts, unless it is `anew`."""
    name = lake.tables.name(due.table)
    table = lake.tables.load(name)
    if str(table.metadata.table_uuid) != due.uuid:
        raise TableNotFound(
            f"{due.table} was recreated since the request: its UUID differs",
            "The requested table was dropped or renamed: lakewarden erasure show ID shows its uuid.",
        )
    if not anew and prove_action.is_proved(lake, table, due.ids):
        return Plan(kind, str(name))
    refuse_forbidden(name, table)
    spelled = new_spellings(lake, name, table, due.ids)
    keys = with_spellings(lake, lake.state.erasure.hidden(due.uuid, due.ids), spelled, due.ids)
    redaction = Redaction.of(table.metadata, [key.field_id for key in keys])
    with redaction.of_errors():
        refuse_strangers(lake, name, table, neighbours)
        found = search(table, keys, lake.files, lake.storage(name.lake))
    action = _action(lake, name, table, due, found, redaction)
    check_nothing_staged(table, str(name), planned_snapshots(action), is_planned=False)
    if action.route == SPARK_SQL:
        check_nothing_else_goes(
            table, name, planned_snapshots(action), [ref.name for ref in dirty_refs(lake, table, found)]
        )
        if with_former_keys(lake, table, due.ids):
            raise Conflict(
                f"{name}: Spark would rewrite files without a column that the table no longer has, and only that "
                "column shows which rows other requests cover",
                f"Purge all requests of the table together: lakewarden erasure purge {name} --now",
            )
        if not lose_columns:
            refuse_losing_columns(lake, name, table, found)
    warnings = (*replaced(table.metadata, due.requests), *lost_keys(table, due.requests))
    warnings += _warnings(lake, name, table, found, action)
    prove = prove_action.action_for(lake, name, table, due.ids)
    return Plan(kind, str(name), (action, prove), warnings, verdicts=tuple(_verdicts(str(name), table, found)))


def for_unclosed(lake: Reader, kind: str, proved: Sequence[Due]) -> list[Plan]:
    """Proofs for requests that could be closed: a run was killed before it did, or stopped because of another one."""
    ready = {one.id for one in to_close(lake, sorted({id for due in proved for id in due.ids}), (), "", ThisRun())}
    plans = []
    for due in proved:
        if ready.isdisjoint(due.ids):
            continue
        name = lake.tables.name(due.table)
        prove = prove_action.action_for(lake, name, lake.tables.load(name), due.ids)
        plans.append(Plan(kind, str(name), (prove,)))
        ready -= {*due.ids}  # proving one table again is enough
    return plans


def refs_before(lake: Reader, table: Table, found: Searched) -> dict[str, RefBefore]:
    """Every ref, its snapshot, and its rows to erase; without working branches of a killed purge."""
    is_ours = known_to(lake.journal)
    return {
        name: RefBefore(name, str(ref.snapshot_ref_type), ref.snapshot_id, found.snapshots.get(ref.snapshot_id, 0))
        for name, ref in table.metadata.refs.items()
        if not is_working(name, is_ours)
    }


def dirty_refs(lake: Reader, table: Table, found: Searched) -> list[RefBefore]:
    """The refs whose version must be replaced."""
    dirty = {*found.snapshots, *found.tainted}
    return [ref for ref in refs_before(lake, table, found).values() if ref.before in dirty]


def refuse_losing_columns(lake: Reader, name: TableName, table: Table, found: Searched) -> None:
    """Refuse if a tag would lose columns: Spark rewrites a tag with an older schema in the current schema."""
    lost = lost_columns(table, [ref.name for ref in dirty_refs(lake, table, found)])
    if lost:
        tag, columns = next(iter(sorted(lost.items())))
        raise Conflict(
            f"{name}: format v{table.metadata.format_version} is purged on Spark, and tag {tag} would lose "
            f"{', '.join(columns)}, which the table no longer has",
            "Copy that version to a separate table first, or add --lose-columns.",
        )


def planned_snapshots(action: Action) -> list[int]:
    return [int(snapshot) for snapshot in action.texts("snapshots")]


def _action(
    lake: Reader,
    name: TableName,
    table: Table,
    due: Due,
    found: Searched,
    redaction: Redaction,
) -> Action:
    target = str(name)
    route = route_of_manifests(lake.tables.route(table, name), table)
    files = FileList.of(PlannedFile(redaction.path(m.path), m.bytes, m.content) for m in found.matches.values())
    going = sorted({*found.snapshots, *found.tainted})
    rounds = len(lake.state.erasure.evidence([EvidenceKind.PURGED], uuid=due.uuid, documents=False))
    rows = sum(match.matching for match in found.matches.values() if match.content == "data")
    times = _times(lake, table, found) if route.needs_spark else 1
    return Action(
        verb=PURGE,
        subject=target,
        lease=table_lease(due.uuid),
        says=_says(lake, table, found, rows),
        arguments={
            "uuid": due.uuid,
            "requests": tuple(due.ids),
            "snapshots": tuple(map(str, going)),
            "round": rounds,  # makes a later purge a different action
        },
        requires=(TableIs(target, due.uuid),),
        expects={},
        estimate=Estimate(
            files=files.count,
            bytes=files.bytes,
            rows=rows,
            seconds=round(files.bytes / (1 << 30) * _SECONDS_PER_GB * times, 1),
        ),
        files=files,
        route=route.name,
        because=route.because,
    )


def _times(lake: Reader, table: Table, found: Searched) -> int:
    """How often Spark rewrites files: once for every version that is kept."""
    return max(len({ref.before for ref in dirty_refs(lake, table, found)}), 1)


def _says(lake: Reader, table: Table, found: Searched, rows: int) -> str:
    if not found.matches and not found.tainted:
        return "search for unreferenced copies; no version holds rows to erase"
    refs = dirty_refs(lake, table, found)
    tags = sum(ref.kind == "tag" for ref in refs)
    branches = len(refs) - tags
    named = [
        f"{n} {what if n == 1 else plural}"
        for n, what, plural in ((branches, "branch", "branches"), (tags, "tag", "tags"))
        if n
    ]
    going = len({*found.snapshots, *found.tainted})
    if going > len({ref.before for ref in refs}):
        named.append("earlier versions" if named else "versions that no branch or tag references")
    from_where = " and ".join([*([", ".join(named[:-1])] if named[1:] else []), *named[-1:]])
    expire = f"{counted(going, 'version')} that had them {'expires' if going == 1 else 'expire'}"
    return f"erase {counted(rows, 'row')} from {from_where}; {expire}"


def _warnings(lake: Reader, name: TableName, table: Table, found: Searched, action: Action) -> tuple[str, ...]:
    if not found.matches and not found.tainted:
        return ()
    warnings = [_STREAMS]
    count, size = len(found.leaving), show_size(sum(found.leaving.values()))
    more = f" and {counted(count, 'more file')} ({size}) that only they have" if count else ""
    warnings.append(f"{name}: deleted with the expired versions: their metadata{more}")
    outside = [path for path in found.matches if not is_own(table, path)]
    if outside:
        warnings.append(
            f"{name}: {len(outside)} files with rows to erase lie outside of its location. No version will reference "
            "them, but they are not deleted, because another table may own them"
        )
    warnings += _readers(lake, name, table, found)
    policy = policy_of(lake.settings, name, table.metadata.properties, {})
    if policy.delta_encoding and action.route != SPARK_SQL:
        warnings.append(f"{name}: {DELTA_ENCODED}")
    if action.route == SPARK_SQL:
        refs = sorted(ref.name for ref in dirty_refs(lake, table, found))
        warnings += [f"{name}: {cost}" for cost in costs(table, refs)]
        warnings += deleted_with_them(lake, str(name), table, action.texts("requests"))
    return tuple(warnings)


def _readers(lake: Reader, name: TableName, table: Table, found: Searched) -> list[str]:
    """Warnings for backfills that have read a version of their source which goes, as the journal knows them."""
    made = replacements_of(table.metadata.properties)
    refs = {ref.snapshot_id for ref in table.metadata.refs.values()}
    going = {*found.snapshots, *found.tainted} - refs
    records = [record for kind in _BACKFILLS for record in lake.journal.list(kind=kind, limit=_ALL)]
    seen, warnings = set[str](), []
    for record in sorted(records, key=lambda record: record.created_at, reverse=True):
        for action in record.plan.actions:
            backfill = str(action.arguments.get("backfill", ""))
            if "source" not in action.arguments or backfill in seen:
                continue
            seen.add(backfill)
            needed = (made.get(snapshot, snapshot) for snapshot in _versions_read(record, action, backfill))
            if lost := next((snapshot for snapshot in needed if snapshot in going), None):
                warnings.append(
                    f"{name}: backfill {backfill} has read version {lost}, which expires: it can neither continue nor "
                    "find rows that arrived since. To keep that version without the erased rows, tag it first: "
                    f"lakewarden version tag {name}@{lost} --name TAG"
                )
    return warnings


def _versions_read(record: Record, action: Action, backfill: str) -> list[int]:
    """The version of its source that a backfill goes on from, and, until its run is complete, the one before that.

    Of a table that is only joined, it reads the current version if the other one is gone. A plan of an earlier release
    does not show which one that is.
    """
    pins, since = json.loads(str(action.arguments["source"])), action.arguments.get("since")
    read = [pins.get(action.arguments["reads"])] if "reads" in action.arguments else list(pins.values())
    actions = record.plan.actions
    own = [step for step in record.steps if actions[step.position].arguments.get("backfill") == backfill]
    is_complete = all(step.progress in (Progress.DONE, Progress.VERIFIED) for step in own)
    return [int(str(snapshot)) for snapshot in (*read, None if is_complete else since) if snapshot]


def _verdicts(target: str, table: Table, found: Searched) -> list[Verdict]:
    """For each version with rows to erase: how many, and whether it is replaced or expired."""
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(table.metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(f"{ref.snapshot_ref_type} {name}")
    verdicts = []
    for snapshot in table.metadata.snapshots:
        id = snapshot.snapshot_id
        if id not in found.snapshots and id not in found.tainted:
            continue
        rows = found.snapshots.get(id, 0)
        why = counted(rows, "row") if rows else "its metadata mentions a value"
        at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        verdict = "replaced" if id in refs else "expired"
        verdicts.append(Verdict(target, str(id), at, verdict, (why, *refs.get(id, ()))))
    return verdicts
