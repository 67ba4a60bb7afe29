"""Erases rows from all versions of a table that only Spark can change: ref by ref, each in a separate commit.

Each version that a ref reaches is rebuilt on a working branch (`working_branch.py`). Then every ref is moved from the
old to the new version, one statement each, so that it is always at one or the other; finally the old versions expire. A
second run continues where the first stopped. A branch that others moved meanwhile keeps their commits: its new version
is rebuilt as well. A ref that others set at the moment of its move is moved back, and the run ends. `spark_costs.py`
describes what this costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.catalog.snapshot_removal import last_stamps, replacement_note
from lakewarden.engine.catalog.snapshots import ancestors, named, notes_of
from lakewarden.engine.commit.procedures import Procedures
from lakewarden.engine.files.reachable import metadata_files
from lakewarden.engine.files.unreachable import unreachable_after
from lakewarden.engine.history.purged_partitions import marked_stamps, purged_by_spark
from lakewarden.engine.history.replacement import Cleansed
from lakewarden.engine.history.spark_costs import (
    check_nothing_else_goes,
    check_nothing_elsewhere,
    check_nothing_staged,
    costs,
)
from lakewarden.engine.history.working_branch import (
    WorkingBranch,
    is_resumed,
    is_working,
    leftover_snapshots,
    rebuilt,
    restore_properties,
)
from lakewarden.engine.rows.row_positions import KeyRows
from lakewarden.engine.spark.statements import TableStatements
from lakewarden.errors import LakewardenError, SparkUnavailable, StalePlan
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.files.live_files import Files
    from lakewarden.engine.spark.session import Spark
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.basics import Fence, ReportProgress, Stamp
    from lakewarden.records.erasure import HiddenKey

__all__ = ["SparkCleansing", "check_nothing_else_goes", "costs"]

AboutTo = Callable[[Sequence[str]], None]
_ROUNDS = 5  # rounds for refs that others move


class SparkCleansing:
    """Erases rows through Spark SQL, under an action's fence and stamp."""

    def __init__(
        self,
        tables: Tables,
        spark: Spark,
        fence: Fence,
        stamp: Stamp,
        files: Files,
        storage: Callable[[str], StoredFiles],
        is_ours: Callable[[str], bool] = lambda operation: False,
    ) -> None:
        """`is_ours` tells which other operations' working branches may be dropped; all other refs are kept."""
        self._tables, self._spark, self._fence, self._stamp = tables, spark, fence, stamp
        self._files, self._storage, self._is_ours = files, storage, is_ours

    def cleanse(
        self,
        name: TableName,
        keys: Sequence[HiddenKey],
        refs: Sequence[str],
        snapshots: Sequence[int],
        about_to: AboutTo,
        progress: ReportProgress,
    ) -> Cleansed:
        """Erase the rows of some keys from these versions of a table, and from any added since.

        `about_to` receives the files that will be unreferenced before the versions expire, and afterwards the metadata
        files written meanwhile. Branches and tags missing from `refs` are found here.
        """
        self._spark.session()  # starting it takes long, so check afterwards
        statements = TableStatements(self._spark, self._fence, name)
        rows = KeyRows(keys, self._files, self._storage(name.lake))
        load = partial(self._tables.load, name)
        run = _Run(load, name, self._stamp, statements, rows, progress, set(snapshots), self._is_ours)
        restore_properties(run.load(), statements)
        check_nothing_else_goes(run.load(), name, snapshots, refs)
        try:
            run.to_the_end()
        except LakewardenError:
            with suppress(LakewardenError):  # the original error matters more
                run.drop_branches(keep=())
            raise
        return self._expire(run, about_to)

    def _expire(self, run: _Run, about_to: AboutTo) -> Cleansed:
        run.drop_branches(keep=())
        reach("spark_cleansing.dropped")
        table = run.load()
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        going = tuple(sorted((run.dirty | leftover_snapshots(table)) & there))
        free = unreachable_after(table, going)
        check_nothing_elsewhere(
            run.name, free.elsewhere, "No version has expired; refs that were moved stay at the new versions."
        )
        superseded = dict.fromkeys(file.path for file in (*free.files, *metadata_files(table)))
        about_to(list(superseded))
        reach("spark_cleansing.intended")
        self._mark(run, table, going)
        Procedures(self._tables, self._spark, self._fence).expire_snapshots(str(run.name), going)
        reach("spark_cleansing.expired")
        after = run.load()
        superseded |= dict.fromkeys(entry.metadata_file for entry in after.metadata.metadata_log)
        superseded.pop(after.metadata_location, None)
        about_to(list(superseded))
        return Cleansed(refs=run.moved, snapshots=going, superseded=tuple(superseded))

    def _mark(self, run: _Run, table: Table, going: Sequence[int]) -> None:
        """Note what Spark's expiry does not know: which versions replace others, and stamps of archives.

        Stamps of partitions that were purged are marked.
        """
        of_main = set(ancestors(table, table.metadata.current_snapshot_id))
        replaced = rebuilt(table)
        purged = purged_by_spark(table, rebuilt(table, of_main), run.rows, self._files)
        notes = {**last_stamps(table, set(going)), **marked_stamps(table, going, purged)}
        if replaced:
            notes |= replacement_note(table.metadata, replaced)
        if notes:
            run.statements.set_properties(notes)
        reach("spark_cleansing.marked")


@dataclass
class _Run:
    load: Callable[[], Table]
    name: TableName
    stamp: Stamp
    statements: TableStatements
    rows: KeyRows
    progress: ReportProgress
    dirty: set[int]
    is_ours: Callable[[str], bool]
    clean: set[int] = field(default_factory=set)
    moved: dict[str, tuple[int, int]] = field(default_factory=dict)

    def to_the_end(self) -> None:
        """Repeat until no ref reaches a version with such rows."""
        for _ in range(_ROUNDS):
            if not self._round():
                return
        raise StalePlan(
            f"the plan is stale: refs of {self.name} were moved by others each time their versions had been rebuilt",
            "Completed steps are kept. Try again when there are fewer writers.",
        )

    def _round(self) -> bool:
        """Rebuild the versions of all dirty refs, and move the refs; returns whether there were any."""
        table = self.load()
        self._look_at_new(table)
        check_nothing_staged(table, str(self.name), self.dirty)
        at = self._dirty_refs(table)
        self.drop_branches(keep=at)
        if not at:
            return False
        total = len(at) + sum(len(refs) for refs in at.values())
        made: dict[int, WorkingBranch] = {}
        for done, snapshot in enumerate(at):
            self.progress(done, total, "versions rebuilt")
            made[snapshot] = WorkingBranch(self.load, self.statements, self.stamp, self.rows, snapshot)
            self.clean.add(made[snapshot].make())
        for done, (ref, snapshot) in enumerate(((ref, at_) for at_, refs in at.items() for ref in refs), len(at)):
            self.progress(done, total, "refs moved")
            self._move(ref, snapshot, made[snapshot].name)
        self.progress(total, total, "refs moved")
        return True

    def drop_branches(self, keep: Mapping[int, object] | Sequence[int]) -> None:
        """Drop working branches that are not needed."""
        table = self.load()
        for ref in filter(partial(self._is_working, table), table.metadata.refs):
            is_of_use = is_resumed(table, ref, self.stamp) and int(ref.rpartition("-")[2]) in keep
            if not is_of_use:
                self.statements.drop_branch(ref)

    def _is_working(self, table: Table, ref: str) -> bool:
        """Whether a ref is a working branch of this operation, or one left by another of our operations."""
        is_branch = str(table.metadata.refs[ref].snapshot_ref_type) == "branch"
        return is_branch and is_working(ref, lambda by: by == self.stamp.operation or self.is_ours(by))

    def _dirty_refs(self, table: Table) -> dict[int, list[str]]:
        """The refs at each version with such rows, without working branches."""
        found: dict[int, list[str]] = {}
        for name, ref in sorted(table.metadata.refs.items()):
            if ref.snapshot_id in self.dirty and not self._is_working(table, name):
                found.setdefault(ref.snapshot_id, []).append(name)
        return found

    def _look_at_new(self, table: Table) -> None:
        """Search versions that were not searched yet: others may have committed rows, or refs to rows."""
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        unknown = there - self.dirty - self.clean - leftover_snapshots(table)
        if unknown:
            found = self.rows.search(table, unknown)
            self.dirty |= {*found.snapshots, *found.tainted}
            self.clean |= unknown - self.dirty

    def _move(self, ref: str, old: int, branch: str) -> None:
        """Move a ref to the new version if it is still at the old one; otherwise the next round handles it."""
        table = self.load()
        found, new = table.metadata.refs.get(ref), table.metadata.refs[branch].snapshot_id
        if found is None or found.snapshot_id != old:
            return
        known = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        is_tag = str(found.snapshot_ref_type) == "tag"
        reach("spark_cleansing.ready")
        try:
            if is_tag:
                self.statements.move_tag(ref, new)
            else:
                self.statements.fast_forward(ref, branch)
        except SparkUnavailable:
            if self._is_at(ref, old):
                raise
            return  # another writer was faster, and it was refused
        reach("spark_cleansing.moved")
        if not is_tag:
            self._keep_displaced(ref, old, new, known)
        self._keep_moved(ref, table, new)
        self.moved[ref] = (self.moved.get(ref, (old, new))[0], new)

    def _keep_displaced(self, branch: str, old: int, new: int, known: set[int]) -> None:
        """Move a branch back to a concurrent commit that the move skipped."""
        table = self.load()
        lost = displaced(table, old, known)
        if lost is None:
            return
        tag = f"displaced-{lost}"
        self.statements.create_tag(tag, lost)  # so that a ref reaches it in any case
        if not self._is_at(branch, new):
            raise StalePlan(
                f"the plan is stale: branch {branch} of {self.name} moved from {old} to {lost} meanwhile",
                f"Concurrent commits are kept as {tag}; others have committed on top of another version.",
            )
        self.statements.set_branch(branch, lost)
        self.statements.drop_tag(tag)

    def _keep_moved(self, ref: str, before: Table, new: int) -> None:
        """Move a ref back to where others had set it just before the move."""
        old, was = before.metadata.refs[ref].snapshot_id, place_before(self.load(), ref, new, before)
        if was is None or was == old or not self._is_at(ref, new):
            return
        is_tag = str(before.metadata.refs[ref].snapshot_ref_type) == "tag"
        (self.statements.move_tag if is_tag else self.statements.set_branch)(ref, was)
        raise StalePlan(
            f"the plan is stale: ref {ref} of {self.name} was moved from {old} to {was} meanwhile",
            "It is back there, and changes to other refs are kept. Plan again.",
        )

    def _is_at(self, ref: str, snapshot: int) -> bool:
        found = self.load().metadata.refs.get(ref)
        return found is not None and found.snapshot_id == snapshot


def displaced(table: Table, old: int, known: set[int]) -> int | None:
    """The last snapshot built on a version since, if no ref reaches it; staged snapshots never had a ref."""
    looked_at = known | named(table)
    lost = [
        snapshot
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id not in looked_at
        and old in ancestors(table, snapshot.snapshot_id)
        and not notes_of(snapshot).get("wap.id")
    ]
    return max(lost, key=lambda snapshot: snapshot.sequence_number or 0).snapshot_id if lost else None


def place_before(table: Table, ref: str, new: int, before: Table) -> int | None:
    """Where a ref was before it moved to its current snapshot; None if it is not there any more.

    Read from the metadata files that others wrote since `before`, if there are any.
    """
    from pyiceberg.serializers import FromInputFile

    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    places = [same_place(path) for path in log]
    known = same_place(before.metadata_location)
    since = log[places.index(known) + 1 :] if known in places else log  # only the newest entries may be kept
    with translating(f"table {'.'.join(table.name())}"):
        between = [FromInputFile.table_metadata(table.io.new_input(path)) for path in since]
    line = [state.refs.get(ref) for state in (before.metadata, *between, table.metadata)]
    at = [found.snapshot_id if found is not None else None for found in line]
    return next((place for place in reversed(at) if place != new), None) if at[-1] == new else None
