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
from lakewarden.features.orphan.batches import Kept, kept, listed, named
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Completes, Positional, TableOperation
from lakewarden.lifecycle.requirement import TableIs, table_lease


class Restore(TableOperation):
    """Bring files back from quarantine to where they were. Never over a file that is there again."""

    id: Annotated[str, Positional()] = Field(
        description="The id of a batch, as lakewarden orphan list shows it, or of the operation that put it away."
    )
    table: Annotated[str | None, Completes("tables")] = Field(
        None, description="Look for it under this table only, not under all."
    )

    def plan(self, lake: Reader) -> Plan:
        names = [lake.tables.name(self.table)] if self.table is not None else lake.tables.names()
        found = kept(lake, names)
        if self.table is not None and found[0].problem:
            raise found[0].problem
        return Plan(self.kind(), self.id, tuple(_action(table, batch) for table, batch in named(found, self.id)))

    def holds(self, action: Action, lake: Reader) -> bool:
        """The batch has ended, and its files are where they were."""
        storage = lake.storage(lake.tables.name(action.subject).lake)
        if quarantine.find(storage, str(action.arguments["location"]), str(action.arguments["batch"])) is not None:
            return False
        return None not in storage.sizes(file.path for file in action.files.items).values()

    def apply(self, action: Action, lake: Writer) -> Outcome:
        storage = lake.storage(lake.tables.name(action.subject).lake)
        batch = quarantine.existing(storage, str(action.arguments["location"]), str(action.arguments["batch"]))
        _refuse_strange(batch, lake, action.subject)
        back = quarantine.restore(storage, batch, lambda done, total: lake.progress(done, total, "files"))
        return Outcome({"files_restored": back.files, "bytes_restored": back.bytes})


def _refuse_strange(batch: Batch, lake: Reader, table: str) -> None:
    """A record is a file like any other in the lake: whoever changed it must not make us write elsewhere."""
    name = lake.tables.name(table)
    places = [*own_places(lake.tables.load(name)), lake.settings.lake(name.lake).warehouse]
    strange = next((file.path for file in batch.files if not _is_within(file.path, places)), None)
    if strange is not None:
        raise BrokenTable(
            f"{batch.record} names a place where {name} has no files: {strange}",
            "Nothing was brought back. If that is right, bring it back by hand.",
        )


def _is_within(path: str, places: Sequence[str]) -> bool:
    return ".." not in path.split("/") and any(is_below(path, place) for place in places)


def _action(table: Kept, batch: Batch) -> Action:
    target, files = str(table.name), listed(batch)
    return Action(
        verb="restore",
        subject=target,
        lease=table_lease(table.uuid),
        says=f"bring {files.count} files back from {batch.id}",
        arguments={"batch": batch.id, "location": batch.location},
        requires=(TableIs(target, table.uuid),),
        expects={"files_restored": files.count, "bytes_restored": files.bytes},
        estimate=Estimate(files=files.count, bytes=files.bytes),
        files=files,
    )
