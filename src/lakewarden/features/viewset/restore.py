"""`viewset restore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.engine.catalog.snapshots import notes_of, operation_of
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.files.manifests import manifests_of, read_entries
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.errors import BadValue, Conflict, LakewardenError, NotFound
from lakewarden.features.shared.each import joined, refusal
from lakewarden.features.viewset.catalogue import Identity, parse_identity, partitions
from lakewarden.features.viewset.definition import HASH, IDENTITY, ViewSet, all_view_sets, columns_with_ids, view_set_of
from lakewarden.features.viewset.history import history_of
from lakewarden.features.viewset.overlap import doubled, unshared
from lakewarden.features.viewset.retiring import EMPTY_WITH_IT
from lakewarden.features.viewset.upgraded import refuse_upgraded
from lakewarden.features.viewset.writing import bring_back_empty, empty_before, removed_empty
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.request import Positional, TableOperation
from lakewarden.lifecycle.requirement import SnapshotKept, TableIs, table_lease
from lakewarden.quantities import counted, from_micros

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
    empty: int = 0
    """How many partitions without rows went with them."""


class Restore(TableOperation):
    """Bring back what an operation retired, exactly as it was, as long as a version before it still exists."""

    operation: Annotated[str, Positional()] = Field(description="The id of a viewset retire operation.")

    def plan(self, lake: Reader) -> Plan:
        parts: list[Plan] = []
        errors: list[LakewardenError] = []
        for view in all_view_sets(lake):
            try:
                found = self._found(lake, view)
                parts += [self._planned(lake, found)] if found is not None else []
            except LakewardenError as error:  # what it retired from others can come back
                errors.append(error)
                parts.append(Plan(self.kind(), str(view.table_name), refused=(refusal(str(view.table_name), error),)))
        if len(parts) == 1 and errors:
            raise errors[0]
        if not parts:
            raise NotFound(
                f"no version of a view set was written by {self.operation}",
                "It may have expired, or it retired nothing. lakewarden operation list shows operations.",
            )
        return joined(self.kind(), ", ".join(part.target for part in parts), parts)

    def holds(self, action: Action, lake: Reader) -> bool:
        view = view_set_of(lake, action.subject)
        there = {row.file_path for row in partitions(lake, view)}
        return all(file.path in there for file in action.files.items) and not empty_before(lake, view, self.operation)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        view = view_set_of(lake, action.subject)
        found = self._found(lake, view) or _Retired(view)
        there = {row.file_path for row in partitions(lake, view)}
        back = {file.path: found.files[file.path] for file in action.files.items if file.path not in there}
        check = unshared(lake, view, _coming(view, back.values(), empty_before(lake, view, self.operation)))
        if back:
            uuid = str(view.table.metadata.table_uuid)
            lake.commits.publish(Append(str(view.table_name), uuid, tuple(back.values()), check=check))
        else:
            check(view.table)
        bring_back_empty(lake, view, self.operation)
        return Outcome({"partitions_restored": action.files.count + len(action.texts("empty"))})

    def _planned(self, lake: Reader, found: _Retired) -> Plan:
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
        _refuse_other_ids(view, missing.values())
        files = FileList.of(PlannedFile(path, a.file.file_size_in_bytes, "data") for path, a in missing.items())
        if not files.count and not empty:
            return Plan(self.kind(), target)
        refuse_upgraded(lake, view)
        action = Action(
            verb="restore",
            subject=target,
            lease=table_lease(uuid),
            says=f"bring back {files.count + len(empty)} partitions that {self.operation} retired",
            arguments={"empty": tuple(empty)} if empty else {},
            requires=(TableIs(target, uuid), *(SnapshotKept(target, version) for version in found.before)),
            estimate=Estimate(files.count, files.bytes),
            files=files,
        )
        return Plan(self.kind(), target, (action,), self._warnings(lake, found))

    def _warnings(self, lake: Reader, found: _Retired) -> tuple[str, ...]:
        lost = found.empty - len(removed_empty(lake, found.view, self.operation))
        if lost <= 0:
            return ()
        what = f"{found.view.name}: {counted(lost, 'partition')} without rows cannot be restored"
        return (f"{what}, since the versions that listed them have expired; materialize lists them again",)

    def _found(self, lake: Reader, view: ViewSet) -> _Retired | None:
        """What the operation retired from a view set."""
        by_it = [one for one in view.table.metadata.snapshots if operation_of(one) == self.operation]
        kinds = [one.summary.operation.value if one.summary else "" for one in by_it]
        retired = [one for one, kind in zip(by_it, kinds, strict=True) if kind == "delete"]
        if not retired:  # it may have compacted, as `policy run` does
            retired = [one for one, kind in zip(by_it, kinds, strict=True) if kind != "replace"]
        if not retired and not empty_before(lake, view, self.operation):
            return None
        parts = [self._retired(lake, view, snapshot) for snapshot in retired]
        return _Retired(
            view,
            tuple(version for part in parts for version in part.before),
            {path: added for part in parts for path, added in part.files.items()},
            sum(int(notes_of(one).get(EMPTY_WITH_IT, 0)) for one in retired),
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


def _refuse_other_ids(view: ViewSet, files: Iterable[AddedFile]) -> None:
    """Refuse files of the current hash if columns with other field ids had it too, which earlier releases allowed."""
    now = columns_with_ids(view.table.schema())
    formers = (history_of(view.table.metadata.properties) or {}).get(view.schema_hash, ())
    if all(one.columns == now for one in formers):
        return
    place = IDENTITY.index(HASH)
    if any(added.file.partition[place] == view.schema_hash for added in files):
        raise Conflict(
            f"{view.name}: columns of schema {view.schema_hash} had other field ids once, maybe in what was retired",
            "Restored, their values would be null. Materialize those partitions instead.",
        )
