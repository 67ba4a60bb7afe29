"""`orphan restore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from lakewarden.engine.base.locations import is_below
from lakewarden.engine.files.reachable import own_places
from lakewarden.engine.storage import quarantine
from lakewarden.engine.storage.quarantine import Batch
from lakewarden.errors import BrokenTable
from lakewarden.features.orphan.batches import Kept, batch_action, kept, named
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Completes, Positional, TableOperation


class Restore(TableOperation):
    """Restore files from quarantine to their original paths. Existing files are never overwritten."""

    id: Annotated[str, Positional()] = Field(
        description="The id of a batch, as shown by lakewarden orphan list, or of the operation that created it."
    )
    table: Annotated[str | None, Completes("tables")] = Field(
        None, description="Search only this table, not all tables."
    )

    def plan(self, lake: Reader) -> Plan:
        names = [lake.tables.name(self.table)] if self.table is not None else lake.tables.names()
        found = kept(lake, names)
        if self.table is not None and found[0].problem:
            raise found[0].problem
        return Plan(self.kind(), self.id, tuple(_action(table, batch) for table, batch in named(found, self.id)))

    def holds(self, action: Action, lake: Reader) -> bool:
        """Whether the batch is gone and its files are at their original paths."""
        storage = lake.storage(lake.tables.name(action.subject).lake)
        if quarantine.find(storage, str(action.arguments["location"]), str(action.arguments["batch"])) is not None:
            return False
        return None not in storage.sizes(file.path for file in action.files.items).values()

    def apply(self, action: Action, lake: Writer) -> Outcome:
        storage = lake.storage(lake.tables.name(action.subject).lake)
        batch = quarantine.existing(storage, str(action.arguments["location"]), str(action.arguments["batch"]))
        _refuse_outside(batch, lake, action.subject)
        back = quarantine.restore(storage, batch, lambda done, total: lake.progress(done, total, "files"))
        return Outcome({"files_restored": back.files, "bytes_restored": back.bytes})


def _refuse_outside(batch: Batch, lake: Reader, table: str) -> None:
    """Refuse paths outside of the table and the warehouse: the record is an ordinary file that anyone can change."""
    name = lake.tables.name(table)
    places = [*own_places(lake.tables.load(name)), lake.settings.lake(name.lake).warehouse]
    outside = next((file.path for file in batch.files if not _is_within(file.path, places)), None)
    if outside is not None:
        raise BrokenTable(
            f"{batch.record} names a location where {name} has no files: {outside}",
            "Nothing was restored. If the location is right, move the files by hand.",
        )


def _is_within(path: str, places: Sequence[str]) -> bool:
    return ".." not in path.split("/") and any(is_below(path, place) for place in places)


def _action(table: Kept, batch: Batch) -> Action:
    count, says = len(batch.files), f"restore {len(batch.files)} files from {batch.id}"
    return batch_action("restore", table, batch, says, {"files_restored": count, "bytes_restored": batch.bytes})
