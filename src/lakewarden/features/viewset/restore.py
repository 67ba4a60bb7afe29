"""`viewset restore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.engine.catalog.snapshots import operation_of
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.files.manifests import manifests_of, read_entries
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.errors import BadValue, Conflict, NotFound
from lakewarden.features.viewset.catalogue import Identity, parse_identity, partitions
from lakewarden.features.viewset.definition import IDENTITY, ViewSet, all_view_sets
from lakewarden.features.viewset.overlap import doubled, unshared
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
    before: tuple[int, ...] = ()
    """The versions before its commits; none if it retired partitions without rows only."""
    files: Mapping[str, AddedFile] = field(default_factory=dict)


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
        empty = empty_before(lake, view, self.operation)
        again = doubled(rows, _coming(view, missing.values(), empty))
        if again is not None:
            raise Conflict(
                f"{view.name} has the partition of {again[0]} from {again[1]:%Y-%m-%d %H:%M} again by now, "
                "or another that overlaps with it",
                "Restoring it would double its rows. Retire that one first.",
            )
        files = FileList.of(PlannedFile(path, a.file.file_size_in_bytes, "data") for path, a in missing.items())
        if not files.count and not empty:
            return Plan(self.kind(), target)
        count = files.count + len(empty)
        action = Action(
            verb="restore",
            subject=target,
            lease=table_lease(uuid),
            says=f"bring back {count} partitions that {self.operation} retired",
            arguments={"empty": tuple(empty)} if empty else {},
            requires=(TableIs(target, uuid), *(SnapshotKept(target, version) for version in found.before)),
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
        check = unshared(lake, view, _coming(view, back, empty_before(lake, view, self.operation)))
        if back:
            uuid = str(view.table.metadata.table_uuid)
            lake.commits.publish(Append(str(view.table_name), uuid, tuple(back), check=check))
        else:
            check(view.table)
        bring_back_empty(lake, view, self.operation)
        return Outcome({"partitions_restored": action.files.count + len(action.texts("empty"))})

    def _found(self, lake: Reader) -> _Retired:
        for view in all_view_sets(lake):
            by_it = [one for one in view.table.metadata.snapshots if operation_of(one) == self.operation]
            if by_it:  # it may also have compacted, as `policy run` does
                retired = [one for one in by_it if one.summary and one.summary.operation.value == "delete"]
                parts = [self._retired(lake, view, snapshot) for snapshot in retired or by_it]
                files = {path: added for part in parts for path, added in part.files.items()}
                return _Retired(view, tuple(version for part in parts for version in part.before), files)
            if empty_before(lake, view, self.operation):
                return _Retired(view)
        raise NotFound(
            f"no version of a view set was written by {self.operation}",
            "It may have expired, or it retired nothing. lakewarden operation list shows operations.",
        )

    def _retired(self, lake: Reader, view: ViewSet, snapshot: Snapshot) -> _Retired:
        """What one commit took out."""
        table, parent = view.table, snapshot.parent_snapshot_id
        before = table.snapshot_by_id(parent) if parent is not None else None
        if before is None:
            raise NotFound(
                f"the version of {view.table_name} before {self.operation} has expired", "It cannot be restored."
            )
        were, after = (lake.files.of(table, one).by_path for one in (before, snapshot))
        if after.keys() - were.keys():
            raise BadValue(
                f"{self.operation} did not retire partitions but replaced them",
                "Bringing the former ones back would double rows. Name a viewset retire operation.",
            )
        gone = {path: file for path, file in were.items() if path not in after}
        masked = next((path for path, file in gone.items() if file.deletes), None)
        if masked is not None:
            raise Conflict(
                f"rows of {masked} were deleted or hidden before it was retired",
                "Restoring it would bring them back. Materialize the partition again.",
            )
        listed = {file.manifest for file in gone.values()}
        added = {
            entry.data_file.file_path: AddedFile(entry.data_file, manifest.partition_spec_id)
            for manifest in manifests_of(table.io, before)
            if manifest.manifest_path in listed
            for entry in read_entries(table.io, manifest)
            if entry.data_file.file_path in gone
        }
        return _Retired(view, (before.snapshot_id,), added)


def _coming(view: ViewSet, files: Iterable[AddedFile], empty: Iterable[str]) -> list[Identity]:
    """The identities of files, and of partitions without rows."""
    found = [parse_identity(text) for text in empty]
    for added in files:
        instance, begin, end, stored = (added.file.partition[place] for place in range(len(IDENTITY)))
        found.append((instance, from_micros(begin), from_micros(end), view.counts_as(stored)))
    return found
