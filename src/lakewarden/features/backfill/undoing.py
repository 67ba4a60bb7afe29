"""Plans an undo: finds the files that a backfill wrote, and refuses if the target has built on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.engine.catalog.snapshots import MAIN, notes_of
from lakewarden.errors import Conflict, TableNotFound
from lakewarden.features.backfill import bad_rows
from lakewarden.features.backfill.position import Found, Position, branch_of, refuse_unknown, stamps_on, whereabouts
from lakewarden.lifecycle.action import Action, Estimate
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import RefAt, TableIs, table_lease
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.features.backfill.registration import Backfill
    from lakewarden.lifecycle.ground import Reader

DROP, REMOVE, FORGET = "drop-branch", "remove", "forget"


def actions(lake: Reader, backfill: Backfill) -> tuple[Action, ...]:
    """What removes all rows of a backfill; nothing if there are none."""
    name = str(backfill.target(lake))
    try:
        table = lake.tables.load(name)
    except TableNotFound:
        return ()
    found: list[Action] = []
    if branch_of(backfill.id) in table.metadata.refs:
        found.append(_drop(name, table, backfill))
    known = whereabouts(table, backfill.id)
    if not found:
        refuse_unknown(table, backfill.id, known)
    stamps = _counting(table, backfill)
    if stamps or (known.current is not None and not found):
        found.append(_remove(lake, name, table, backfill, stamps))
    return (*found, *forgetting(lake, backfill)) if found else ()


def expected(action: Action) -> Position:
    """Where the target was at planning, as far as main is concerned."""
    return Position.read(str(action.arguments["position"]))


def _counting(table: Table, backfill: Backfill) -> list[Found]:
    """The stamps on main since the last undo, newest first."""
    stamps: list[Found] = []
    for found in stamps_on(table, MAIN, backfill.id):
        if found.position.undone:
            break
        stamps.append(found)
    return stamps


def _drop(name: str, table: Table, backfill: Backfill) -> Action:
    branch, uuid = branch_of(backfill.id), str(table.metadata.table_uuid)
    head = table.metadata.refs[branch].snapshot_id
    rows, files = (
        int(notes_of(table.snapshot_by_id(head)).get(f"total-{what}", 0)) for what in ("records", "data-files")
    )
    return Action(
        verb=DROP,
        subject=name,
        lease=table_lease(uuid),
        says=f"drop branch {branch} with {counted(rows, 'row')} that were not published, and delete its files",
        arguments={"backfill": backfill.id, "branch": branch, "snapshot": str(head)},
        requires=(TableIs(name, uuid), RefAt(name, branch, head)),
        expects={"rows_removed": rows, "files_removed": files},
    )


def _remove(lake: Reader, name: str, table: Table, backfill: Backfill, stamps: list[Found]) -> Action:
    uuid = str(table.metadata.table_uuid)
    route = route_of_manifests(lake.tables.route(table, lake.tables.name(name)), table)
    if route.needs_spark:
        raise Conflict(
            f"{name}: its files cannot be removed directly: {route.because}",
            "Nothing was undone. Remove the rows with a DELETE.",
        )
    if not stamps or not is_complete([found.position for found in stamps][::-1]):
        raise Conflict(
            f"commits of backfill {backfill.id} have expired, so which rows of {name} are its own is not known",
            "Nothing was undone. Remove its rows with a DELETE.",
        )
    files = _files(lake, name, table, backfill, stamps)
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    return Action(
        verb=REMOVE,
        subject=name,
        lease=table_lease(uuid),
        says=f"remove {counted(rows, 'row')} in {counted(len(files), 'file')} that backfill {backfill.id} wrote",
        arguments={"backfill": backfill.id, "position": stamps[0].position.text},
        requires=(TableIs(name, uuid),),
        expects={"rows_removed": rows, "files_removed": len(files)},
        estimate=Estimate(len(files), size, rows),
        files=FileList.of(PlannedFile(file.path, file.bytes, "data") for file in files),
    )


def is_complete(positions: Sequence[Position]) -> bool:
    """Whether no stamp is missing, from the first commit on."""
    return [at.commits for at in positions] == list(range(1, len(positions) + 1))


def _files(lake: Reader, name: str, table: Table, backfill: Backfill, stamps: list[Found]) -> list[LiveFile]:
    """The files that its commits added, all of them live and without deletes."""
    snapshots = {found.snapshot for found in stamps}
    notes = [notes_of(one) for one in table.metadata.snapshots if one.snapshot_id in snapshots]
    added = sum(int(each.get("added-data-files", 0)) for each in notes)
    live = [file for file in lake.files.of(table, table.current_snapshot()).data if file.added_by in snapshots]
    problems = []
    if len(live) != added:
        problems.append(f"{added - len(live)} of its {counted(added, 'file')} were compacted, rewritten or removed")
    if masked := sum(1 for file in live if file.deletes):
        problems.append(f"rows were deleted from {counted(masked, 'file')}")
    if problems:
        raise Conflict(
            f"{name} has built on the rows of backfill {backfill.id}: {'; '.join(problems)}",
            "Nothing was undone. Roll it back with lakewarden version rollback, or remove the rows with a DELETE.",
        )
    return live


def forgetting(lake: Reader, backfill: Backfill) -> list[Action]:
    """Bad rows that were put aside: run again, the backfill must try them again."""
    name = bad_rows.table_name(lake, backfill)
    rows = len(bad_rows.of_backfill(lake, name, backfill.id))
    if not rows:
        return []
    uuid = str(lake.tables.load(name).metadata.table_uuid)
    return [
        Action(
            verb=FORGET,
            subject=name,
            lease=table_lease(uuid),
            says=f"forget {counted(rows, 'bad row')} of backfill {backfill.id}",
            arguments={"backfill": backfill.id},
            requires=(TableIs(name, uuid),),
        )
    ]
