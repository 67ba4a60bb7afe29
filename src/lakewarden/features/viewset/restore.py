"""`viewset restore`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.engine.catalog.snapshots import operation_of
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.files.manifests import manifests_of, read_entries
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.errors import BadValue, Conflict, NotFound
from lakewarden.features.viewset.catalogue import PartitionRow, partitions
from lakewarden.features.viewset.definition import IDENTITY, ViewSet, all_view_sets
from lakewarden.features.viewset.writing import bring_back_empty, empty_before
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.request import Positional, TableOperation
from lakewarden.lifecycle.requirement import SnapshotKept, TableIs, table_lease
from lakewarden.quantities import from_micros

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.lifecycle.ground import Reader, Writer


@dataclass(frozen=True)
class _Retired:
    """What an operation retired, as the lake itself knows it."""

    view: ViewSet
    before: Snapshot | None
    """The version before it; None if it retired partitions without rows only."""
    files: dict[str, AddedFile]


class Restore(TableOperation):
    """Bring back what an operation retired, exactly as it was, as long as a version before it still exists."""

    operation: Annotated[str, Positional()] = Field(description="The id of a viewset retire operation.")

    def plan(self, lake: Reader) -> Plan:
        found = self._found(lake)
        view = found.view
        target, uuid = str(view.table_name), str(view.table.metadata.table_uuid)
        rows = partitions(lake, view)
        there = {row.file_path for row in rows}
        missing = {path: added for path, added in found.files.items() if path not in there}
        _refuse_written_again(view, rows, missing.values())
        files = FileList.of(PlannedFile(path, a.file.file_size_in_bytes, "data") for path, a in missing.items())
        empty = empty_before(lake, view, self.operation)
        if not files.count and not empty:
            return Plan(self.kind(), target)
        count = files.count + len(empty)
        action = Action(
            verb="restore",
            subject=target,
            lease=table_lease(uuid),
            says=f"bring back {count} partitions that {self.operation} retired",
            arguments={"empty": tuple(empty)} if empty else {},
            requires=(
                TableIs(target, uuid),
                *((SnapshotKept(target, found.before.snapshot_id),) if found.before is not None else ()),
            ),
            estimate=Estimate(files.count, files.bytes),
            files=files,
        )
        return Plan(self.kind(), target, (action,))

    def holds(self, action: Action, lake: Reader) -> bool:
        found = self._found(lake)
        there = {row.file_path for row in partitions(lake, found.view)}
        return all(file.path in there for file in action.files.items) and not empty_before(
            lake, found.view, self.operation
        )

    def apply(self, action: Action, lake: Writer) -> Outcome:
        found = self._found(lake)
        view = found.view
        there = {row.file_path for row in partitions(lake, view)}
        back = [found.files[file.path] for file in action.files.items if file.path not in there]
        if back:
            lake.commits.publish(Append(str(view.table_name), str(view.table.metadata.table_uuid), tuple(back)))
        bring_back_empty(lake, view, self.operation)
        return Outcome({"partitions_restored": action.files.count + len(action.texts("empty"))})

    def _found(self, lake: Reader) -> _Retired:
        for view in all_view_sets(lake):
            for snapshot in reversed(view.table.metadata.snapshots):
                if operation_of(snapshot) == self.operation:
                    return self._retired(lake, view, snapshot)
            if empty_before(lake, view, self.operation):
                return _Retired(view, None, {})
        raise NotFound(
            f"no version of a view set was written by {self.operation}",
            "It may have expired, or it retired nothing. lakewarden operation list shows operations.",
        )

    def _retired(self, lake: Reader, view: ViewSet, snapshot: Snapshot) -> _Retired:
        table, parent = view.table, snapshot.parent_snapshot_id
        before = table.snapshot_by_id(parent) if parent is not None else None
        if before is None:
            raise NotFound(
                f"the version of {view.table_name} before {self.operation} has expired", "It cannot be restored."
            )
        after = set(lake.files.of(table, snapshot).by_path)
        if after - set(lake.files.of(table, before).by_path):
            raise BadValue(
                f"{self.operation} did not retire partitions but replaced them",
                "Bringing the former ones back would double rows. Name a viewset retire operation.",
            )
        files: set[str] = set()
        for path, file in lake.files.of(table, before).by_path.items():
            if path not in after:
                if file.deletes:
                    raise Conflict(
                        f"rows of {path} were deleted or hidden before it was retired",
                        "Restoring it would bring them back. Materialize the partition again.",
                    )
                files.add(path)
        added = {
            entry.data_file.file_path: AddedFile(entry.data_file, manifest.partition_spec_id)
            for manifest in manifests_of(table.io, before)
            for entry in read_entries(table.io, manifest)
            if entry.data_file.file_path in files
        }
        return _Retired(view, before, added)


def _refuse_written_again(view: ViewSet, rows: Iterable[PartitionRow], missing: Iterable[AddedFile]) -> None:
    """A partition that is there by now must not come back beside it."""
    there = {row.identity for row in rows}
    for added in missing:
        instance, begin, end, schema_hash = (added.file.partition[place] for place in range(len(IDENTITY)))
        if (instance, from_micros(begin), from_micros(end), schema_hash) in there:
            raise Conflict(
                f"{view.name} has the partition of {instance} from {from_micros(begin):%Y-%m-%d %H:%M} again by now",
                "Restoring it would double its rows. Retire that one first.",
            )
