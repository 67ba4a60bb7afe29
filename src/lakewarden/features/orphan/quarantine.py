"""`orphan quarantine`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.files.reachable import reachable_set
from lakewarden.engine.storage import quarantine
from lakewarden.engine.storage.quarantine import Batch, QuarantinedFile
from lakewarden.errors import StorageUnavailable
from lakewarden.features.orphan.age import Aged
from lakewarden.features.orphan.judgement import Judge, refuse_forbidden
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.orphan.search import Orphan, Searched, search
from lakewarden.features.orphan.unfinished import Unfinished
from lakewarden.features.shared.each import TablesOperation
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader, Writer

_MOST_FILES = 50_000  # per action, and so per batch: a batch's record is read as a whole


class Quarantine(Aged, TablesOperation):
    """Move a table's orphans to quarantine, from where they can be restored until the grace period is over.

    Each file is checked again right before it is moved: files that are referenced or changed by now, or that a running
    operation may commit, stay in place. lakewarden orphan list shows what is in quarantine.
    """

    destructive = True

    def plan(self, lake: Reader) -> Plan:
        before, neighbours = self.before(lake), Neighbours(lake)

        def plan_one(name: TableName) -> Plan:
            found: list[Orphan] = []
            searched = search(lake, name, before, neighbours, found.append)
            in_order = sorted(found, key=lambda orphan: orphan.path)
            parts = [in_order[start : start + _MOST_FILES] for start in range(0, len(in_order), _MOST_FILES)]
            actions = tuple(_action(name, searched.table, part) for part in parts)
            return Plan(self.kind(), str(name), actions, _warnings(lake, name, searched))

        return self.plan_each(lake, plan_one)

    def holds(self, action: Action, lake: Reader) -> bool:
        """Whether all listed orphans were moved, and none that is needed by now."""
        listed = _Listed(self, action, lake, lake.tables.load(action.subject))
        return not listed.orphans and not listed.missed

    def apply(self, action: Action, lake: Writer) -> Outcome:
        name, table = lake.tables.name(action.subject), lake.tables.load(action.subject)
        refuse_forbidden(name, table)
        storage, made_at = lake.storage(name.lake), lake.clock()
        batch = Batch(
            id=f"{lake.stamp.operation}-{lake.stamp.action}",
            location=table.metadata.location,
            table=action.subject,
            uuid=str(table.metadata.table_uuid),
            operation=lake.stamp.operation,
            reason="orphan",
            made_at=made_at,
            delete_after=made_at + lake.settings.quarantine.grace,
            files=tuple(
                QuarantinedFile(file.path, file.bytes, file.kind) for file in _Listed(self, action, lake, table).orphans
            ),
        )
        moved = quarantine.stash(storage, batch, lambda done, total: lake.progress(done, total, "files"))
        if moved.failed:
            raise StorageUnavailable(
                f"{name}: {len(moved.failed)} of {action.files.count} files could not be moved, such as "
                f"{moved.failed[0][0]}: {moved.failed[0][1]}",
                f"Continue with: lakewarden operation resume {lake.stamp.operation}",
            )
        back = _bring_back(self, action, lake, batch)
        away, size = moved.files - len(back), moved.bytes - sum(file.bytes for file in back)
        return Outcome({"files_quarantined": away, "bytes_quarantined": size, "files_kept": action.files.count - away})


class _Listed:
    """The current state of the files that an action lists."""

    def __init__(self, asked: Aged, action: Action, lake: Reader, table: Table) -> None:
        name = lake.tables.name(action.subject)
        judge = Judge(name, reachable_set(table), asked.before(lake), Unfinished(lake))
        found = lake.storage(name.lake).look(file.path for file in action.files.items)
        self.orphans: list[PlannedFile] = []
        """Still there, unchanged since planning, and still orphans."""
        self.missed: list[PlannedFile] = []
        """No longer there, but needed."""
        for file in action.files.items:
            stored = found[file.path]
            if stored is None:
                self.missed += [file] if judge.is_needed(file.path) else []
            elif stored.bytes == file.bytes and judge.verdict(stored) == "orphan":
                self.orphans.append(file)


def _bring_back(asked: Aged, action: Action, lake: Writer, batch: Batch) -> list[PlannedFile]:
    """Restore files that another writer committed while they were being moved."""
    name = lake.tables.name(action.subject)
    missed = _Listed(asked, action, lake, lake.tables.load(action.subject)).missed
    storage = lake.storage(name.lake)
    recorded = quarantine.find(storage, batch.location, batch.id) if missed else None
    places = {file.path: recorded.place(file) for file in recorded.files} if recorded else {}
    return [file for file in missed if file.path in places and storage.move(places[file.path], file.path)]


def _action(name: TableName, table: Table, orphans: Sequence[Orphan]) -> Action:
    target, uuid = str(name), str(table.metadata.table_uuid)
    files = FileList.of(PlannedFile(orphan.path, orphan.bytes, orphan.kind) for orphan in orphans)
    return Action(
        verb="quarantine",
        subject=target,
        lease=table_lease(uuid),
        says=f"move {files.count} orphans to quarantine",
        arguments={"uuid": uuid, "location": table.metadata.location},
        requires=(TableIs(target, uuid),),
        estimate=Estimate(files=files.count, bytes=files.bytes),
        files=files,
    )


def _warnings(lake: Reader, name: TableName, found: Searched) -> tuple[str, ...]:
    warnings = []
    if found.orphans and not lake.storage(name.lake).renames(found.table.metadata.location):
        warnings.append(f"{name}: its storage cannot rename, so moving copies {show_size(found.bytes)}")
    if found.kept["in use"]:
        warnings.append(f"{name}: {found.kept['in use']} files stay, since a running operation may commit them")
    return tuple(warnings)
