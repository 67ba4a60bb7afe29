"""Batches of files in quarantine, which are stored in the lake under each table's location."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.storage.quarantine import Batch, batches
from lakewarden.errors import LakewardenError, NotFound, did_you_mean
from lakewarden.lifecycle.action import Action, Estimate, Facts
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease


@dataclass(frozen=True)
class Kept:
    """The quarantine of one table; `problem` says why it cannot be read."""

    name: TableName
    uuid: str = ""
    batches: list[Batch] = field(default_factory=list)
    problem: LakewardenError | None = None


def kept(lake: Reader, names: Sequence[TableName]) -> list[Kept]:
    """The quarantine of each of these tables."""
    return list(lake.tables.read_all(names, lambda name: _kept(lake, name)))


def named(found: Sequence[Kept], id: str) -> list[tuple[Kept, Batch]]:
    """The batch with this id, or all batches of the operation with this id."""
    chosen = [(table, batch) for table in found for batch in table.batches if id in (batch.id, batch.operation)]
    if not chosen:
        known = [batch.id for table in found for batch in table.batches]
        problems = [table.problem.message for table in found if table.problem]
        unread = f" ({len(problems)} tables could not be read, such as {problems[0]})" if problems else ""
        hint = did_you_mean(id, known, "lakewarden orphan list shows all batches.")
        raise NotFound(f"no batch {id} in quarantine{unread}", hint)
    return chosen


def listed(batch: Batch) -> FileList:
    """A batch's files as a plan lists them: by their original paths."""
    return FileList.of(PlannedFile(file.path, file.bytes, file.kind) for file in batch.files)


def batch_action(verb: str, table: Kept, batch: Batch, says: str, expects: Facts | None = None) -> Action:
    target, files = str(table.name), listed(batch)
    return Action(
        verb=verb,
        subject=target,
        lease=table_lease(table.uuid),
        says=says,
        arguments={"batch": batch.id, "location": batch.location},
        requires=(TableIs(target, table.uuid),),
        expects=expects or {},
        estimate=Estimate(files=files.count, bytes=files.bytes),
        files=files,
    )


def _kept(lake: Reader, name: TableName) -> Kept:
    try:
        table = lake.tables.load(name)
        found = batches(lake.storage(name.lake), table.metadata.location)
        return Kept(name, str(table.metadata.table_uuid), found)
    except LakewardenError as error:
        return Kept(name, problem=error)
