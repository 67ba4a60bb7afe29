"""`orphan delete`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.storage import quarantine
from lakewarden.engine.storage.quarantine import Batch
from lakewarden.errors import DeletionForbidden, StalePlan, StorageUnavailable
from lakewarden.features.orphan.batches import batch_action, kept, listed, named
from lakewarden.features.orphan.judgement import refuse_forbidden
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation


class Delete(Selects, TableOperation):
    """Permanently delete files in quarantine whose grace period is over.

    Files that a version references again are not deleted; orphan restore brings them back. The grace period is
    configured as quarantine: grace; orphan list shows when it ends for each batch.
    """

    destructive = True

    batch: str | None = Field(None, description="Only this batch, or all batches of this operation; in any table.")
    now: bool = Field(False, description="Also delete batches whose grace period is not over.")

    def plan(self, lake: Reader) -> Plan:
        found = kept(lake, self._names(lake))
        if self.is_one and found[0].problem:
            raise found[0].problem
        chosen = named(found, self.batch) if self.batch else [(t, batch) for t in found for batch in t.batches]
        actions, warnings = [], []
        for table, batch in chosen:
            if not self.now and batch.delete_after > lake.clock():
                warnings.append(f"{batch.id} of {table.name} is kept: its grace ends at {batch.delete_after:%F %R} UTC")
            elif batch.uuid != table.uuid and not self.batch:
                warnings.append(
                    f"{batch.id} is from an earlier table named {table.name}: --batch {batch.id} deletes it"
                )
            else:
                says = f"permanently delete {len(batch.files)} files of {batch.id}"
                actions.append(batch_action("delete", table, batch, says))
        refused = tuple(Finding(str(table.name), table.problem.message) for table in found if table.problem)
        target = self.batch or self.target
        return Plan(self.kind(), target, tuple(actions), tuple(warnings), () if self.batch else refused)

    def holds(self, action: Action, lake: Reader) -> bool:
        """Whether the batch is gone: its record is deleted after its last file."""
        return _batch(action, lake) is None

    def apply(self, action: Action, lake: Writer) -> Outcome:
        name, batch = lake.tables.name(action.subject), _batch(action, lake)
        if batch is None:
            return Outcome({"files_deleted": 0, "bytes_freed": 0})
        self._check(name, action, batch, lake)
        storage = lake.storage(name.lake)
        gone = quarantine.discard(storage, batch, lambda done, total: lake.progress(done, total, "files"))
        if gone.failed:
            raise StorageUnavailable(
                f"{name}: {len(gone.failed)} of {len(batch.files)} files of {batch.id} could not be deleted, such as "
                f"{gone.failed[0][0]}: {gone.failed[0][1]}",
                f"Continue with: lakewarden operation resume {lake.stamp.operation}",
            )
        return Outcome({"files_deleted": gone.files, "bytes_freed": gone.bytes})

    def _names(self, lake: Reader) -> list[TableName]:
        anywhere = self.batch is not None and not (self.table or self.all or self.namespace)
        return lake.tables.names() if anywhere else self.chosen(lake)

    def _check(self, name: TableName, action: Action, batch: Batch, lake: Reader) -> None:
        table = lake.tables.load(name)
        refuse_forbidden(name, table)
        if listed(batch) != action.files:
            raise StalePlan(f"the plan is stale: the files of batch {batch.id} changed", "Plan again.")
        if not self.now and batch.delete_after > lake.clock():
            raise StalePlan(f"the plan is stale: the grace of {batch.id} is not over", "Add --now, or wait.")
        here = lake.storage(name.lake).sizes(batch.place(file) for file in batch.files)  # without restored files
        paths = [file.path for file in batch.files if here[batch.place(file)] is not None]
        needed = set(paths) - set(still_unreachable(table, paths))
        if needed:
            raise DeletionForbidden(
                f"{name}: a version references {len(needed)} files of {batch.id} again, such as {min(needed)}",
                f"Restore them: lakewarden orphan restore {batch.id}",
            )


def _batch(action: Action, lake: Reader) -> Batch | None:
    storage = lake.storage(lake.tables.name(action.subject).lake)
    return quarantine.find(storage, str(action.arguments["location"]), str(action.arguments["batch"]))
