"""Detaches one partition, and drops a detached one: each only if its rows are proved to be in the archive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.errors import Conflict
from lakewarden.features.sequence import twins
from lakewarden.features.sequence.archives import ArchiveTable
from lakewarden.features.sequence.checksums import Checksums, in_database
from lakewarden.features.sequence.columns import columns_of
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.copying import partition_rows
from lakewarden.features.sequence.partitions import Partition, read_table
from lakewarden.features.sequence.target import altering, sequences_of
from lakewarden.features.sequence.twins import Twin, twin_of
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pathlib import Path

    from lakewarden.lifecycle.ground import Writer


@dataclass(frozen=True)
class Target:
    """A partition that is detached, or to be detached."""

    table: str
    partition: Partition
    archive: ArchiveTable | None
    """None if its rows are not archived and shall be lost."""
    file: Path | None


def detach(lake: Writer, target: Target, now: datetime) -> None:
    """Detach a partition, compare its rows with the archive, and attach it again if they differ.

    Comparing takes long, so the lock that `maintain` needs is held only while something is altered.
    """
    with Reading(sequences_of(lake.settings, target.file)) as connection:
        twin, exists = _twin(connection, target)
        if target.archive is not None and not (exists and twin.is_swapped(connection)):
            _check_unchanged(connection, twin, target)
    with altering(lake, target.table, target.file) as altered:
        twins.detach(altered, _twin(altered, target)[0])
    with Reading(sequences_of(lake.settings, target.file)) as connection:
        differs = _differences(connection, twin, _archived(connection, twin, target))
    reach("sequence.compared")
    with altering(lake, target.table, target.file) as altered:
        twin, exists = _twin(altered, target)
        if not exists or not twin.is_swapped(altered):
            raise Conflict(f"{twin.table}.{twin.partition} was attached again by another process", "Plan again.")
        if differs:
            twins.attach(altered, twin)
            raise _changed(twin, differs, "It was attached again, and nothing was dropped.")
        twins.mark(altered, twin, now)


def drop(lake: Writer, target: Target) -> None:
    """Drop a detached partition, if its rows are equal to those in the archive while nobody can change them."""
    with Reading(sequences_of(lake.settings, target.file)) as connection:
        twin, _ = _twin(connection, target)
        if twin.is_attached:
            twins.check_no_new_rows(connection, twin)
        archived = _archived(connection, twin, target)
        _check_equal(connection, twin, archived)
    reach("sequence.compared")
    with altering(lake, target.table, target.file) as altered:
        twin, exists = _twin(altered, target)
        if not exists or not twin.is_swapped(altered):
            raise Conflict(f"{twin.table}.{twin.partition} was attached again by another process", "Plan again.")
        twins.drop(altered, twin, lambda locked: _check_equal(locked, twin, archived))


def _twin(connection: Reading, target: Target) -> tuple[Twin, bool]:
    """The twin of a partition as it is, or as it will be, and whether it exists."""
    table, name = read_table(connection, target.table), target.partition.name
    known = twin_of(connection, table, name)
    if known is not None and known.is_archived and target.archive is None:
        raise Conflict(
            f"{table}.{name} was archived since this was planned", "Nothing was changed. Plan again, to compare it."
        )
    new = Twin(table, name, target.partition.bound, None, target.archive is not None)
    return known or new, known is not None


def _check_unchanged(connection: Reading, twin: Twin, target: Target) -> None:
    """Compare with what was archived before anything is changed: readers need not miss the rows even for a moment."""
    assert target.archive is not None
    copied = target.archive.copy_of(target.partition)
    if copied is None:
        raise Conflict(
            f"{twin.table}.{twin.partition} is not archived in {target.archive.name}",
            "Nothing was changed. Archive it first: lakewarden sequence archive",
        )
    rows = partition_rows(twin.table, target.partition)
    found = in_database(connection, rows, twin.table.columns, columns_of(connection, twin.table.name))
    differs = found.differences(copied.checksums)
    if differs:
        raise _changed(twin, differs, "Nothing was changed.")


def _archived(connection: Reading, twin: Twin, target: Target) -> Checksums | None:
    """The checksums of what the archive has of a twin; None if its rows need not be there."""
    if target.archive is None:
        return None
    if twin.partition in target.archive.lost:  # it may be equal to an earlier copy, but is not read as that
        raise Conflict(
            f"{target.archive.name} no longer has the copy of {twin.table}.{twin.partition}: others rolled it back",
            f"No row was dropped: they are in table {twin.name} of the database. Restore the partition, and archive it "
            f"again: lakewarden sequence restore --partition {twin.partition}",
        )
    return target.archive.checksums(twin.partition, twin.table.columns, columns_of(connection, twin.name))


def _differences(connection: Reading, twin: Twin, archived: Checksums | None) -> str:
    """How the rows of a twin differ from those in the archive; empty if they do not."""
    if archived is None:
        return ""
    columns = columns_of(connection, twin.name)
    return in_database(connection, twin.sql_name, twin.table.columns, columns).differences(archived)


def _check_equal(connection: Reading, twin: Twin, archived: Checksums | None) -> None:
    differs = _differences(connection, twin, archived)
    if differs:
        raise _changed(twin, differs, f"No row was dropped: they are in table {twin.name} of the database.")


def _changed(twin: Twin, differs: str, then: str) -> Conflict:
    return Conflict(
        f"{twin.table}.{twin.partition} differs from its archive: {differs}. {then}",
        f"If the database is right, archive it again: lakewarden sequence archive --again --partition {twin.partition}",
    )
