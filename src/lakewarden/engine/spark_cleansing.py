"""Rows erased from every version of a table that only Spark can change: ref by ref, each by a commit of its own.

Each version that a ref leads to is made anew on a working branch (`working_branch.py`). Then every ref is moved from
the old to the new version, one statement each, so that it is wholly before or wholly after at any time; at last the
versions that had the rows expire. A second run takes up what it finds. A branch that somebody else has moved
meanwhile keeps what was committed to it: its new version is made anew as well. What this costs, `costs` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lakewarden.engine.changes import Cleansed, Expiry
from lakewarden.engine.cleansing_costs import costs
from lakewarden.engine.expiry import iceberg_would_also_take
from lakewarden.engine.key_rows import KeyRows
from lakewarden.engine.procedures import Procedures
from lakewarden.engine.reachable import metadata_files
from lakewarden.engine.table_statements import TableStatements
from lakewarden.engine.tables import ancestors
from lakewarden.engine.unreachable import unreachable_after
from lakewarden.engine.working_branch import WorkingBranch, is_taken_up, is_working, put_back, spent
from lakewarden.errors import CommitRefused, LakewardenError, SparkUnavailable, StalePlan
from lakewarden.lifecycle.failpoints import reach
from lakewarden.quantities import to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.live_files import Files
    from lakewarden.engine.reference import TableName
    from lakewarden.engine.spark import Spark
    from lakewarden.engine.storage import StoredFiles
    from lakewarden.engine.tables import Tables
    from lakewarden.lifecycle.ground import Fence, Stamp, Tell
    from lakewarden.lifecycle.tombstones import HiddenKey

__all__ = ["SparkCleansing", "costs"]

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
    ) -> None:
        self._tables, self._spark, self._fence, self._stamp = tables, spark, fence, stamp
        self._files, self._storage = files, storage

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
        run = _Run(partial(self._tables.load, name), name, self._stamp, statements, rows, progress, set(snapshots))
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
        free = [file.path for file in unreachable_after(table, going).files]
        superseded = dict.fromkeys([*free, *(file.path for file in metadata_files(table))])
        about_to(list(superseded))
        reach("spark_cleansing.intended")
        uuid = str(table.metadata.table_uuid)
        expiry = Expiry(table=str(run.name), uuid=uuid, snapshots=going)
        Procedures(self._tables, self._spark, self._fence).expire_snapshots(expiry, lambda _: None)
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
        at = dirty_refs(table, self.dirty)
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
        for ref in [ref for ref in table.metadata.refs if is_working(ref)]:
            is_of_use = is_taken_up(table, ref, self.stamp) and int(ref.rpartition("-")[2]) in keep
            if not is_of_use:
                self.statements.drop_branch(ref)

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

    def _is_at(self, ref: str, snapshot: int) -> bool:
        found = self.load().metadata.refs.get(ref)
        return found is not None and found.snapshot_id == snapshot


def dirty_refs(table: Table, dirty: set[int]) -> dict[int, list[str]]:
    """The refs that lead to each of these versions; working branches are nobody's."""
    found: dict[int, list[str]] = {}
    for name, ref in sorted(table.metadata.refs.items()):
        if ref.snapshot_id in dirty and not is_working(name):
            found.setdefault(ref.snapshot_id, []).append(name)
    return found


def displaced(table: Table, old: int, known: set[int]) -> int | None:
    """The last of what was built on a version since, and that no ref leads to."""
    named = {id for ref in table.metadata.refs.values() for id in ancestors(table, ref.snapshot_id)}
    lost = [
        snapshot
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id not in known | named and old in ancestors(table, snapshot.snapshot_id)
    ]
    return max(lost, key=lambda snapshot: snapshot.sequence_number or 0).snapshot_id if lost else None


def check_nothing_else_goes(table: Table, name: TableName, snapshots: Sequence[int], refs: Sequence[str]) -> None:
    """Refuse before anything is done where Iceberg's expiry would take along what is to stay."""
    kinds = {ref: str(table.metadata.refs[ref].snapshot_ref_type) for ref in refs if ref in table.metadata.refs}
    tags = [ref for ref, kind in kinds.items() if kind == "tag"]  # which are moved to a version of today
    found = iceberg_would_also_take(table.metadata, snapshots, tags, to_millis(datetime.now(UTC)))
    more = [one for one in found if one not in {f"{kind} {ref}" for ref, kind in kinds.items()}]
    if more:
        raise CommitRefused(
            f"{name}: Iceberg's expiry on Spark, which the purge ends with, would also take {', '.join(more)}",
            "Nothing was changed. Let them expire first: lakewarden retention expire.",
        )
