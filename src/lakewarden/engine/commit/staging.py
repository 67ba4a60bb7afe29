r"""Stages rows: Spark writes them to a separate branch, and `Append` or `Overwrite` publishes them.

Spark never commits rows to a branch that people read: a Spark Connect server continues after its client has died, and
would commit after the lease has expired. On a staging branch that does no harm. Each run stages under a unique name, so
what an earlier run left there, or a server writes there later, is never published. The next run that stages rows for
the table removes it.

    staged = lake.staging.stage(table, lambda session: session.sql("SELECT …"))
    lake.commits.publish(Append(table, uuid, staged=staged))
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.engine.catalog.snapshots import WAP_ID, lines_of, notes_of
from lakewarden.engine.commit.expired_versions import Expiry
from lakewarden.engine.commit.procedures import Procedures
from lakewarden.engine.files.manifests import has_live_files, holds_data, manifests_of, read_entries
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.engine.spark.session import translating_spark
from lakewarden.engine.spark.statements import TableStatements
from lakewarden.errors import StalePlan, VerificationFailed
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.spark.session import Spark
    from lakewarden.engine.storage.storage import Storage
    from lakewarden.lifecycle.basics import ReportProgress

STAGED = "lakewarden.staged"
"""In the summary of a staged snapshot: its branch."""
_AS_THEY_COME = {"use-table-distribution-and-ordering": "false", "fanout-enabled": "false"}
_BY_TASK = {"distribution-mode": "none", "fanout-enabled": "false"}  # rows are sorted within tasks if the table is
_LEVEL = "1"  # as in rewrites: nearly as small as Iceberg's own choice for zstd, in much less time
_NAME = re.compile(r"lakewarden-staging-(?P<operation>op-[0-9]{8}-[0-9]{6}-[0-9a-f]{6})-\S+")


@dataclass(frozen=True)
class StagedRows:
    """Rows that Spark has written completely, and their branch."""

    branch: str
    snapshot: int
    base: int | None
    """The head of main when the branch was created."""
    added: tuple[AddedFile, ...] = field(repr=False)
    metadata: Mapping[int, tuple[str, ...]] = field(repr=False)
    """The manifest list and manifests written for each snapshot of the branch."""
    replaced: frozenset[str] = frozenset()
    """Files whose rows were deleted on the branch, if only Spark can replace them."""

    @property
    def rows(self) -> int:
        return sum(added.file.record_count for added in self.added)

    def by_task(self) -> dict[int, tuple[AddedFile, ...]]:
        """The files by the number of the task that wrote them: Iceberg begins their names with it."""
        found: dict[int, list[AddedFile]] = {}
        for added in self.added:
            found.setdefault(int(added.file.file_path.rpartition("/")[2].partition("-")[0]), []).append(added)
        return {task: tuple(files) for task, files in found.items()}

    def only_there(self, table: Table) -> list[int]:
        """The snapshots that belong to no other branch or tag."""
        return only_on(table, self.branch)


class Staging:
    """Stages rows for one action."""

    def __init__(
        self,
        desk: Desk,
        spark: Spark,
        storage: Callable[[str], Storage],
        is_over: Callable[[str], bool] = lambda operation: False,
        progress: ReportProgress = lambda done, total, says: None,
    ) -> None:
        """`is_over` tells which other operations are not running: their staging branches are removed too."""
        self._desk, self._spark, self._storage, self._is_over, self._progress = desk, spark, storage, is_over, progress

    def stage(
        self,
        table_name: str,
        rows: Callable[[SparkSession], DataFrame],
        replaced: Collection[str] = (),
        in_order: bool = False,
        by_task: bool = False,
        most_seconds: float = inf,
        look: Callable[[], None] | None = None,
    ) -> StagedRows:
        """Have Spark write rows for a table, matched by column name; returns when all are written.

        `replaced` are the data files that an `Overwrite` will replace: if only Spark can do that, their rows are
        deleted on the branch. Rows that come `in_order`, those of a partition together, are written as they come.
        With `by_task`, the task that has a row writes it. `look` is called regularly meanwhile.
        """
        name = self._desk.tables.name(table_name)
        session = self._spark.session()
        self._sweep(name, self._own)
        statements = TableStatements(self._spark, self._desk.fence, name)
        table = self._desk.tables.load(name)
        refuse_unsupported(table, name)
        base, through_spark = table.metadata.current_snapshot_id, table.metadata.format_version > 2
        branch = f"{self._own}-{uuid.uuid4().hex[:8]}"
        statements.create_branch(branch, base)
        reach("staging.branched")
        if through_spark and replaced:
            self._delete_files(statements, branch, replaced)
        before = self._head(name, branch)
        with translating_spark():
            frame = rows(session)
        properties = {STAGED: branch} | ({WAP_ID: self._desk.stamp.name} if through_spark else {})
        options = {f"snapshot-property.{key}": value for key, value in properties.items()}
        options |= compression(table.metadata.properties)
        options |= _AS_THEY_COME if in_order else _BY_TASK if by_task else {}
        statements.append(branch, frame, options, look or self._tell, most_seconds)
        reach("staging.written")
        return self._reported(name, branch, base, before, frozenset(replaced if through_spark else ()))

    def _tell(self) -> None:
        self._progress(0, 1, "rows are being written")

    def drop(self, table_name: str, branch: str) -> None:
        """Drop a branch with the snapshots that belong to no other branch or tag, and delete their files."""
        self._remove(self._desk.tables.name(table_name), branch)

    def sweep(self, table_name: str, whole_operation: bool = False) -> int:
        """Remove staging branches at a table, of earlier runs of the action and of operations that are not running.

        Those of the whole operation may be removed only while none of its actions stages rows.
        """
        own = self._of_operation if whole_operation else self._of_action
        return self._sweep(self._desk.tables.name(table_name), own)

    @property
    def _of_operation(self) -> str:
        return f"lakewarden-staging-{self._desk.stamp.operation}"

    @property
    def _of_action(self) -> str:
        return f"{self._of_operation}-{self._desk.stamp.action}"

    @property
    def _own(self) -> str:
        """The prefix of the branches for this commit of the action."""
        return f"{self._of_action}-{hashlib.sha256(self._desk.stamp.name.encode()).hexdigest()[:8]}"

    def _sweep(self, name: TableName, own: str) -> int:
        removed = 0
        for branch in [ref for ref in self._desk.tables.load(name).metadata.refs if self._is_abandoned(ref, own)]:
            with suppress(StalePlan):  # its writer, such as a server, still writes: the next run removes it
                self._remove(name, branch)
                removed += 1
        return removed

    def _is_abandoned(self, ref: str, own: str) -> bool:
        found = _NAME.fullmatch(ref)
        return found is not None and (ref.startswith(f"{own}-") or self._is_over(found["operation"]))

    def _remove(self, name: TableName, branch: str) -> None:
        table = self._desk.tables.load(name)
        if branch not in table.metadata.refs:
            return  # another process removed it
        head, going = table.metadata.refs[branch].snapshot_id, only_on(table, branch)
        if table.metadata.format_version > 2:
            TableStatements(self._spark, self._desk.fence, name).drop_branch(branch)
            with suppress(StalePlan):  # if Iceberg would expire more, leave it to retention
                procedures = Procedures(self._desk.tables, self._spark, self._desk.fence)
                procedures.expire_snapshots(str(name), going, {}, lambda _: None)
            return
        written = [path for id in going for path in (*_metadata(table, id), *_data(table, id))]
        Expiry(str(name), str(table.metadata.table_uuid), tuple(going), {branch: head}).publish(self._desk)
        reach("staging.removed")
        self._storage(name.lake).delete_all(still_unreachable(self._desk.tables.load(name), written))

    def _delete_files(self, statements: TableStatements, branch: str, files: Collection[str]) -> None:
        view = f"lakewarden_{self._desk.stamp.action}_files"
        statements.view(view, [(path, 0) for path in files])
        try:
            statements.delete_files(branch, view)
        finally:
            statements.drop_view(view)
        reach("staging.replaced")

    def _head(self, name: TableName, branch: str) -> int:
        return self._desk.tables.load(name).metadata.refs[branch].snapshot_id

    def _reported(
        self, name: TableName, branch: str, base: int | None, before: int, replaced: frozenset[str]
    ) -> StagedRows:
        """What is on the branch, if it is one snapshot with rows, written by this run."""
        table = self._desk.tables.load(name)
        found = table.snapshot_by_name(branch)
        if found is None or found.parent_snapshot_id != before or notes_of(found).get(STAGED) != branch:
            raise VerificationFailed(
                f"{name}: Spark reports rows as staged on branch {branch}, but they are missing",
                "Nothing was published. Try again.",
            )
        entries = _added(table, found.snapshot_id)
        return StagedRows(
            branch=branch,
            snapshot=found.snapshot_id,
            base=base,
            added=tuple(AddedFile(entry.data_file, entry.data_file.spec_id or 0) for entry in entries),
            metadata={id: _metadata(table, id) for id in only_on(table, branch)},
            replaced=replaced,
        )


def compression(properties: Mapping[str, str]) -> dict[str, str]:
    """The option for how much Spark's writers compress, unless the table's properties name a level."""
    is_zstd = properties.get("write.parquet.compression-codec", "").lower() == "zstd"
    is_open = is_zstd and "write.parquet.compression-level" not in properties
    return {"compression-level": _LEVEL} if is_open else {}


def rows_on(table: Table, branch: str) -> StagedRows:
    """All rows of a branch that began without the rows of main: `Append` publishes them and removes the branch."""
    head = table.snapshot_by_name(branch)
    assert head is not None
    added = list[AddedFile]()
    for manifest in filter(has_live_files, manifests_of(table.io, head)):
        if not holds_data(manifest):
            raise StalePlan(
                f"the plan is stale: rows were deleted from branch {branch} of {'.'.join(table.name())}",
                "Nothing was published.",
            )
        entries = read_entries(table.io, manifest)
        added += [AddedFile(entry.data_file, manifest.partition_spec_id) for entry in entries]
    metadata = {id: _metadata(table, id) for id in only_on(table, branch)}
    return StagedRows(branch, head.snapshot_id, None, tuple(added), metadata)


def only_on(table: Table, branch: str) -> list[int]:
    """The snapshots of a branch that belong to no other branch or tag, the newest last."""
    refs = table.metadata.refs
    others = lines_of(table, (ref.snapshot_id for name, ref in refs.items() if name != branch))
    own = lines_of(table, [refs[branch].snapshot_id]) if branch in refs else set()
    return [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id in own - others]


def _metadata(table: Table, snapshot_id: int) -> tuple[str, ...]:
    """The manifest list of a snapshot, and the manifests written for it."""
    snapshot = table.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    manifests = manifests_of(table.io, snapshot)
    return snapshot.manifest_list, *(m.manifest_path for m in manifests if m.added_snapshot_id == snapshot_id)


def _added(table: Table, snapshot_id: int) -> list[ManifestEntry]:
    from pyiceberg.manifest import ManifestEntryStatus

    snapshot = table.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    return [
        entry
        for manifest in manifests_of(table.io, snapshot)
        if manifest.added_snapshot_id == snapshot_id
        for entry in read_entries(table.io, manifest)
        if entry.status == ManifestEntryStatus.ADDED
    ]


def _data(table: Table, snapshot_id: int) -> list[str]:
    return [entry.data_file.file_path for entry in _added(table, snapshot_id)]
