"""Rows erased from every version of a table that only Spark can change: ref by ref, each by a commit of its own.

Each version that a ref leads to is made anew on a working branch (`working_branch.py`). Then every ref is moved from
the old to the new version, one statement each, so that it is wholly before or wholly after at any time; at last the
versions that had the rows expire. A second run takes up what it finds. A branch that somebody else has moved
meanwhile keeps what was committed to it: its new version is made anew as well. A ref that somebody set elsewhere in
the moment of its move goes back there, and the run ends. What all of this costs, `spark_costs.py` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import told
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.catalog.snapshots import ancestors, named, notes_of
from lakewarden.engine.commit.procedures import Procedures
from lakewarden.engine.files.reachable import metadata_files
from lakewarden.engine.files.unreachable import unreachable_after
from lakewarden.engine.history.replacement import Cleansed
from lakewarden.engine.history.spark_costs import (
    check_nothing_else_goes,
    check_nothing_elsewhere,
    check_nothing_staged,
    costs,
)
from lakewarden.engine.history.working_branch import WorkingBranch, is_taken_up, is_working, put_back, spent
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
    from lakewarden.lifecycle.basics import Fence, Stamp, Tell
    from lakewarden.records.erasure import HiddenKey

__all__ = ["SparkCleansing", "check_nothing_else_goes", "costs"]

AboutTo = Callable[[Sequence[str]], None]
_ROUNDS = 5  # times that refs are looked at again which others have moved


class SparkCleansing:
    """Erases rows through Spark SQL, behind an action's fence and under its name."""

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
        """`is_ours` tells which other operations' working branches may be dropped; other refs are all kept."""
        self._tables, self._spark, self._fence, self._stamp = tables, spark, fence, stamp
        self._files, self._storage, self._is_ours = files, storage, is_ours

    def cleanse(
        self,
        name: TableName,
        keys: Sequence[HiddenKey],
        refs: Sequence[str],
        snapshots: Sequence[int],
        about_to: AboutTo,
        progress: Tell,
    ) -> Cleansed:
        """Erase the rows of some keys from these versions of a table, and from any that came since.

        `about_to` is told which files nothing will lead to before the versions expire, and afterwards, which files
        of metadata were written meanwhile. Branches and tags that nobody had found, `refs`, are found here.
        """
        self._spark.session()  # its start takes long: what is looked at is looked at after it
        statements = TableStatements(self._spark, self._fence, name)
        rows = KeyRows(keys, self._files, self._storage(name.lake))
        load = partial(self._tables.load, name)
        run = _Run(load, name, self._stamp, statements, rows, progress, set(snapshots), self._is_ours)
        put_back(run.load(), statements)
        check_nothing_else_goes(run.load(), name, snapshots, refs)
        try:
            run.to_the_end()
        except LakewardenError:
            with suppress(LakewardenError):  # what went wrong matters more
                run.drop_branches(keep=())
            raise
        return self._expire(run, about_to)

    def _expire(self, run: _Run, about_to: AboutTo) -> Cleansed:
        run.drop_branches(keep=())
        reach("spark_cleansing.dropped")
        table = run.load()
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        going = tuple(sorted((run.dirty | spent(table)) & there))
        free = unreachable_after(table, going)
        check_nothing_elsewhere(run.name, free.elsewhere, "No version has gone, and the refs that were moved stay so.")
        superseded = dict.fromkeys(file.path for file in (*free.files, *metadata_files(table)))
        about_to(list(superseded))
        reach("spark_cleansing.intended")
        Procedures(self._tables, self._spark, self._fence).expire_snapshots(str(run.name), going)
        reach("spark_cleansing.expired")
        after = run.load()
        superseded |= dict.fromkeys(entry.metadata_file for entry in after.metadata.metadata_log)
        superseded.pop(after.metadata_location, None)
        about_to(list(superseded))
        return Cleansed(refs=run.moved, snapshots=going, superseded=tuple(superseded))


@dataclass
class _Run:
    """One cleansing on its way."""

    load: Callable[[], Table]
    name: TableName
    stamp: Stamp
    statements: TableStatements
    rows: KeyRows
    progress: Tell
    dirty: set[int]
    is_ours: Callable[[str], bool]
    clean: set[int] = field(default_factory=set)
    moved: dict[str, tuple[int, int]] = field(default_factory=dict)

    def to_the_end(self) -> None:
        """Until no ref leads to a version with such rows."""
        for _ in range(_ROUNDS):
            if not self._round():
                return
        raise StalePlan(
            f"the plan is stale: refs of {self.name} were moved by others each time a version had been made for them",
            "What was done stays done. Try again when fewer write to it.",
        )

    def _round(self) -> bool:
        """Make versions anew for all refs at versions with such rows, and move them; whether there were any."""
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
            self.progress(done, total, "versions made anew")
            made[snapshot] = WorkingBranch(self.load, self.statements, self.stamp, self.rows, snapshot)
            self.clean.add(made[snapshot].make())
        for done, (ref, snapshot) in enumerate(((ref, at_) for at_, refs in at.items() for ref in refs), len(at)):
            self.progress(done, total, "refs moved")
            self._move(ref, snapshot, made[snapshot].name)
        self.progress(total, total, "refs moved")
        return True

    def drop_branches(self, keep: Mapping[int, object] | Sequence[int]) -> None:
        """Drop working branches that are of no use, or no more."""
        table = self.load()
        for ref in filter(partial(self._is_working, table), table.metadata.refs):
            is_of_use = is_taken_up(table, ref, self.stamp) and int(ref.rpartition("-")[2]) in keep
            if not is_of_use:
                self.statements.drop_branch(ref)

    def _is_working(self, table: Table, ref: str) -> bool:
        """Whether a ref is a branch that this operation works on, or that another one of ours has left behind."""
        is_branch = str(table.metadata.refs[ref].snapshot_ref_type) == "branch"
        return is_branch and is_working(ref, lambda by: by == self.stamp.operation or self.is_ours(by))

    def _dirty_refs(self, table: Table) -> dict[int, list[str]]:
        """The refs that lead to each version with such rows; working branches are nobody's."""
        found: dict[int, list[str]] = {}
        for name, ref in sorted(table.metadata.refs.items()):
            if ref.snapshot_id in self.dirty and not self._is_working(table, name):
                found.setdefault(ref.snapshot_id, []).append(name)
        return found

    def _look_at_new(self, table: Table) -> None:
        """Versions that nobody has looked at: others may have committed rows, or refs to rows, meanwhile."""
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        unknown = there - self.dirty - self.clean - spent(table)
        if unknown:
            found = self.rows.search(table, unknown)
            self.dirty |= {*found.snapshots, *found.tainted}
            self.clean |= unknown - self.dirty

    def _move(self, ref: str, old: int, branch: str) -> None:
        """Move a ref to the new version if it still is at the old one; where it is not, the next round looks again."""
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
            return  # somebody was quicker, and it was refused
        reach("spark_cleansing.moved")
        if not is_tag:
            self._keep_displaced(ref, old, new, known)
        self._keep_moved(ref, table, new)
        self.moved[ref] = (self.moved.get(ref, (old, new))[0], new)

    def _keep_displaced(self, branch: str, old: int, new: int, known: set[int]) -> None:
        """A commit of somebody else's that landed while the branch was moved, and that it went over: go back to it."""
        table = self.load()
        lost = displaced(table, old, known)
        if lost is None:
            return
        tag = f"displaced-{lost}"
        self.statements.create_tag(tag, lost)  # so that it has a name, whatever comes
        if not self._is_at(branch, new):
            raise StalePlan(
                f"the plan is stale: branch {branch} of {self.name} moved from {old} to {lost} meanwhile",
                f"What others committed is kept as {tag}; they have gone on from another version.",
            )
        self.statements.set_branch(branch, lost)
        self.statements.drop_tag(tag)

    def _keep_moved(self, ref: str, before: Table, new: int) -> None:
        """A ref that somebody else had set to another version, in the moment between: it goes back to that one."""
        old, was = before.metadata.refs[ref].snapshot_id, place_before(self.load(), ref, new, before)
        if was is None or was == old or not self._is_at(ref, new):
            return
        is_tag = str(before.metadata.refs[ref].snapshot_ref_type) == "tag"
        (self.statements.move_tag if is_tag else self.statements.set_branch)(ref, was)
        raise StalePlan(
            f"the plan is stale: ref {ref} of {self.name} was moved from {old} to {was} meanwhile",
            "It is there again, and what was done to others stays done. Plan again.",
        )

    def _is_at(self, ref: str, snapshot: int) -> bool:
        found = self.load().metadata.refs.get(ref)
        return found is not None and found.snapshot_id == snapshot


def displaced(table: Table, old: int, known: set[int]) -> int | None:
    """The last of what was built on a version since, and that no ref leads to; what was staged never had a ref."""
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
    """Where a ref was right before it came to the version where it is; nothing where it is not there any more.

    Told by the metadata that others wrote since `before`, which is read only if they wrote any.
    """
    from pyiceberg.serializers import FromInputFile

    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    places = [same_place(path) for path in log]
    known = same_place(before.metadata_location)
    since = log[places.index(known) + 1 :] if known in places else log  # of the log, only the newest may be kept
    with told(f"table {'.'.join(table.name())}"):
        between = [FromInputFile.table_metadata(table.io.new_input(path)) for path in since]
    line = [state.refs.get(ref) for state in (before.metadata, *between, table.metadata)]
    at = [found.snapshot_id if found is not None else None for found in line]
    return next((place for place in reversed(at) if place != new), None) if at[-1] == new else None
