"""Adds new rows to a table, by appending or by replacing files, in one commit with one snapshot.

Rows come as complete files: written by the caller, or by Spark on a staging branch (`staging.py`). They are added to
the branch as it is at commit time, so concurrent appends do not matter. Unlike rewritten rows they get the sequence
number of the commit, so that no earlier delete applies to them.

An action publishes rows once. An append leaves no other trace, so every attempt first looks for a snapshot with the
action's stamp: a run resumed after its commit landed finds it, and adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.engine.catalog.snapshots import MAIN, WAP_ID, notes_of, stamped
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.new_snapshot import Draft, by_manifest, delete_leftovers
from lakewarden.engine.commit.publish import Attempt, at_refs, check_format, check_identity
from lakewarden.engine.commit.refs import RefChange, SetRef
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.spark.statements import TableStatements
from lakewarden.errors import BadValue, StalePlan, VerificationFailed
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.commit.staging import StagedRows
    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.engine.spark.session import Spark


@dataclass(frozen=True)
class Append(Change[int]):
    """Files with new rows for a branch. Publishing returns their snapshot."""

    added: tuple[AddedFile, ...] = ()
    staged: StagedRows | None = None
    """Rows staged by Spark; the staging branch is removed in the same commit."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """Other staging branches that hold these files, and stay: they must be where they were."""
    branch: str = MAIN
    starts_branch: bool = False
    """Whether a branch that does not exist begins with these rows alone, without the rows of main."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """For the snapshot's summary; where Spark publishes, Iceberg writes its own."""
    merges: bool = True
    """Whether its manifest replaces the small ones of the operation's earlier commits too."""
    check: Callable[[Table], None] = field(default=lambda table: None, repr=False, compare=False)
    """Called before each attempt; refuses if the rows must not be added to the table as it is now."""

    def needs_spark(self, tables: Tables) -> bool:
        name = tables.name(self.table)
        table = tables.load(name)
        return route_of_manifests(tables.route(table, name), table).needs_spark

    def publish(self, desk: Desk) -> int:
        made: list[int] = []
        is_late: list[bool] = []

        def attempt(table: Table) -> Attempt | None:
            check_format(table, self.table)
            landed = stamped(table, desk.stamp)
            if landed is not None:
                made[:], is_late[:] = [landed], [self._is_staged(table)]
                return Attempt(at_refs(self.uuid, {}), self._unstaged(table)) if is_late[0] else None
            self._check_branch(table)
            self.check(table)
            head = table.snapshot_by_name(self.branch)
            with Draft(table, head, desk.stamp, desk.reader) as draft:
                operation = self._take_out(table, draft, desk)
                draft.add(self._files, merges=self.merges)
                made[:] = [draft.snapshot_id]
                return draft.attempt(
                    self.uuid, self.branch, self.facts, operation, self._staged_refs, self._unstaged(table)
                )

        desk.publisher.publish(self.table, self.uuid, attempt)
        if self.staged is not None:
            self._delete_staged(desk.tables.load(self.table), also_rows=any(is_late))
        return made[0]

    def publish_through_spark(self, desk: Desk, spark: Spark) -> int:
        """Have Iceberg cherry-pick the staged snapshot onto main. It refuses to pick the same action's rows twice."""
        name = desk.tables.name(self.table)
        if self.staged is None or self.branch != MAIN:
            raise BadValue(f"{name}: in its format, only rows staged by Spark can be published, and only to main")
        spark.session()  # starting it takes long, so check afterwards
        table = desk.tables.load(name)
        check_identity(table, self.table, self.uuid)
        if stamped(table, desk.stamp) is None:
            self._check_staged(table)
            self.check(table)
            if notes_of(table.snapshot_by_id(self.staged.snapshot)).get(WAP_ID) != desk.stamp.name:
                raise _stale(f"the format version of {self.table} changed since the rows were staged")
            reach("commit.ready")
            self._publish_staged(table, desk, spark)
            reach("commit.landed")
        landed = stamped(desk.tables.load(name), desk.stamp)
        if landed is None:
            raise VerificationFailed(
                f"{name}: Spark reports the staged rows as published, but main has no such snapshot"
            )
        if self._is_staged(table):
            TableStatements(spark, desk.fence, name).drop_branch(self.staged.branch)
        return landed

    def _publish_staged(self, table: Table, desk: Desk, spark: Spark) -> None:
        assert self.staged is not None
        TableStatements(spark, desk.fence, desk.tables.name(self.table)).cherry_pick(self.staged.snapshot)

    def _take_out(self, table: Table, draft: Draft, desk: Desk) -> str:
        """Remove what the rows replace; returns the snapshot's operation."""
        return "append"

    @property
    def _files(self) -> tuple[AddedFile, ...]:
        return (*self.added, *(self.staged.added if self.staged else ()))

    def _is_staged(self, table: Table) -> bool:
        return self.staged is not None and self.staged.branch in table.metadata.refs

    def _check_branch(self, table: Table) -> None:
        if self.branch != MAIN and self.branch not in table.metadata.refs and not self.starts_branch:
            raise _stale(f"{self.table} no longer has branch {self.branch}")
        self._check_staged(table)

    @property
    def _staged_refs(self) -> dict[str, int]:
        own = {self.staged.branch: self.staged.snapshot} if self.staged else {}
        return {**self.beside, **own}

    def _check_staged(self, table: Table) -> None:
        """Only what was reported as complete may be published, and nothing whose files may be gone."""
        for branch, snapshot in self._staged_refs.items():
            found = table.metadata.refs.get(branch)
            if found is None or found.snapshot_id != snapshot:
                raise _stale(f"the rows staged for {self.table} on branch {branch} were removed or changed")

    def _unstaged(self, table: Table) -> tuple[TableUpdate, ...]:
        """The updates that remove the staging branch with its snapshots."""
        from pyiceberg.table.update import RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate

        if self.staged is None:
            return ()
        gone = self.staged.only_there(table)
        return (
            RemoveSnapshotRefUpdate.model_validate({"ref-name": self.staged.branch}),
            *((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),) if gone else ()),
        )

    def _delete_staged(self, table: Table, also_rows: bool) -> None:
        """Delete the manifests of the staging branch, and its data files if an earlier run had published the rows."""
        assert self.staged is not None
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        files = [path for snapshot, some in self.staged.metadata.items() if snapshot not in there for path in some]
        if also_rows:
            files += still_unreachable(table, [added.file.file_path for added in self.staged.added])
        delete_leftovers(table.io, files)


@dataclass(frozen=True)
class Overwrite(Append):
    """Files with new rows that replace exactly these data files, each with the deletes it had at planning."""

    removed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def _take_out(self, table: Table, draft: Draft, desk: Desk) -> str:
        files = Files(desk.reader).of(table, draft.head)
        changed = [
            path
            for path, deletes in self.removed.items()
            if path not in files.by_path or files.by_path[path].deletes_identity != deletes
        ]
        if changed:
            raise _stale(
                f"{len(changed)} of the {len(self.removed)} files on branch {self.branch} of {self.table} that were to "
                "be replaced were removed or rewritten, or have new deletes"
            )
        draft.remove(by_manifest([*(files.by_path[path] for path in self.removed), *files.dangling(self.removed)]))
        return "overwrite" if self._files else "delete"

    def _publish_staged(self, table: Table, desk: Desk, spark: Spark) -> None:
        """Move main to the staged snapshot. It lacks the rows of the replaced files, and any concurrent commits."""
        assert self.staged is not None
        if set(self.removed) != self.staged.replaced:
            raise BadValue(f"{self.table}: the rows were staged to replace other files")
        if table.metadata.current_snapshot_id != self.staged.base:
            raise _stale(f"others committed to {self.table} since the rows were staged")
        name = desk.tables.name(self.table)
        route = desk.tables.route(table, name)
        to = SetRef(MAIN, "branch", self.staged.snapshot)
        change = RefChange(self.table, self.uuid, {MAIN: self.staged.base}, (to,), route=route.name)
        change.publish_through_spark(desk, spark) if route.needs_spark else change.publish(desk)


def _stale(what: str) -> StalePlan:
    return StalePlan(f"the plan is stale: {what}", "Nothing was written. Plan again.")
