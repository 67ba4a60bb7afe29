"""Removes files that became unreachable: to quarantine, permanently, or by Iceberg's own expiry on Spark.

The plan lists the files; whether each is still unreachable is checked with the current metadata. Results are measured:
files that still exist are not counted as removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.storage.quarantine import Batch, QuarantinedFile, stash
from lakewarden.errors import StalePlan, StorageUnavailable
from lakewarden.features.orphan.judgement import refuse_forbidden
from lakewarden.lifecycle.action import Action, Facts
from lakewarden.lifecycle.planned_files import PlannedFile

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader, Writer

How = Literal["quarantine", "delete", "spark"]
QUARANTINE: How = "quarantine"
DELETE: How = "delete"
SPARK: How = "spark"  # its expiry deletes the files itself


def way_out(lake: Reader, lake_name: str, location: str, needs_spark: bool) -> How:
    """How files are removed, as configured; by default to quarantine, unless moving them means copying them."""
    if needs_spark:
        return SPARK
    asked = lake.settings.quarantine.expired_files
    moves = asked == "always" or (asked == "auto" and lake.storage(lake_name).renames(location))
    return QUARANTINE if moves else DELETE


def remove(action: Action, lake: Writer) -> Facts:
    """Remove the files of an action that are still unreachable; return what was measured."""
    name, table = lake.tables.name(action.subject), lake.tables.load(action.subject)
    _check_same_table(action, table)
    refuse_forbidden(name, table)
    storage, listed = lake.storage(name.lake), {file.path: file for file in action.files.items}
    free = [listed[path] for path in still_unreachable(table, list(listed))]

    def progress(done: int, total: int) -> None:
        lake.progress(done, total, "files")

    if action.arguments["how"] == QUARANTINE:
        moved = stash(storage, _batch(action, lake, table, free), progress)
        _check_all_left(action, moved.failed)
        return {"files_quarantined": moved.files, "bytes_quarantined": moved.bytes}
    removed = storage.delete_all([file.path for file in free], progress)
    _check_all_left(action, removed.failed)
    return {"files_removed": removed.files, "bytes_freed": removed.bytes}


def left(action: Action, lake: Reader) -> list[str]:
    """Listed files that still exist although they are unreachable."""
    there = list(sizes_of(action, lake))
    return still_unreachable(lake.tables.load(action.subject), there) if there else []


def sizes_of(action: Action, lake: Reader) -> dict[str, int]:
    """The sizes of the listed files that exist."""
    name = lake.tables.name(action.subject)
    sizes = lake.storage(name.lake).sizes([file.path for file in action.files.items])
    return {path: size for path, size in sizes.items() if size is not None}


def _batch(action: Action, lake: Writer, table: Table, free: list[PlannedFile]) -> Batch:
    made_at = lake.clock()
    return Batch(
        id=f"{lake.stamp.operation}-{lake.stamp.action}",
        location=table.metadata.location,
        table=action.subject,
        uuid=str(table.metadata.table_uuid),
        operation=lake.stamp.operation,
        reason="expired",
        made_at=made_at,
        delete_after=made_at + lake.settings.quarantine.grace,
        files=tuple(QuarantinedFile(file.path, file.bytes, file.kind) for file in free),
    )


def _check_same_table(action: Action, table: Table) -> None:
    """Refuse a recreated table: its metadata knows none of these files, so all would look unreachable."""
    if str(table.metadata.table_uuid) != action.arguments["uuid"]:
        raise StalePlan(
            f"the plan is stale: {action.subject} was recreated: its UUID differs",
            "No files were removed. Plan again.",
        )


def _check_all_left(action: Action, failed: tuple[tuple[str, str], ...]) -> None:
    if failed:
        raise StorageUnavailable(
            f"{action.subject}: {len(failed)} of {action.files.count} files could not be removed, such as "
            f"{failed[0][0]}: {failed[0][1]}",
            "The versions are expired, but these files remain. Fix the cause, then resume the operation.",
        )
