"""Which tables of which database a request is about, and what a plan requires of them.

The database is named by the configuration, or by a `partitionmanager:` file that the request names. Plans store the
file's path and the server's id, never an address or a password.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from lakewarden.config import SequenceSettings, Settings, load_sequences
from lakewarden.errors import ConfigProblem
from lakewarden.features.sequence.connection import Altering, Reading
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position, read_table
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.request import Request
from lakewarden.lifecycle.requirement import Lake, Requirement, requirement

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Writer


class SequenceRequest(Request):
    """A request about tables of the operational database."""

    file: Path | None = Field(
        None, description="A partitionmanager: file, instead of the section sequences of the configuration."
    )
    table: list[str] = Field([], description="Only these tables of the database; by default all that are configured.")

    @field_validator("file")
    @classmethod
    def _absolute(cls, file: Path | None) -> Path | None:
        """A stored request may be resumed from another folder."""
        return None if file is None else file.absolute()

    def sequences(self, settings: Settings) -> SequenceSettings:
        return sequences_of(settings, self.file)

    def chosen(self, sequences: SequenceSettings) -> list[str]:
        """The names of the tables; one that is not configured has the defaults."""
        names = list(dict.fromkeys(self.table)) or list(sequences.tables)
        if not names:
            raise ConfigProblem("no tables are configured", "List them under tables:, or name some with --table.")
        return names


def sequences_of(settings: Settings, file: Path | str | None) -> SequenceSettings:
    """The settings of the database: from a file, or from the configuration."""
    if file is not None:
        return load_sequences(Path(file))
    if settings.sequences is None:
        raise ConfigProblem("the configuration has no section sequences", "Add it to lakewarden.yaml, or use --file.")
    return settings.sequences


def altering(lake: Writer, table: str, file: Path | str | None) -> Altering:
    """The connection of an action that alters a table."""
    return Altering(sequences_of(lake.settings, file), table, lake.fence)


def database_lease(table: PartitionedTable) -> str:
    """The lease for changes to a database table: by the server's id, however it is reached."""
    return f"database:{table.server}/{table}"


def partition_lease(table: PartitionedTable, partition: str) -> str:
    """The lease for archiving, detaching or dropping one partition, which may take hours beside `maintain`."""
    return f"{database_lease(table)}/{partition}"


@requirement
@dataclass(frozen=True)
class DatabaseTableIs:
    """The table is on the planned server, and partitioned by the planned columns."""

    server: str
    database: str
    table: str
    columns: tuple[str, ...]
    file: str | None = None
    kind: ClassVar[str] = "database-table"
    identifies: ClassVar[bool] = True

    @staticmethod
    def of(table: PartitionedTable, file: Path | None) -> DatabaseTableIs:
        path = None if file is None else str(file)
        return DatabaseTableIs(table.server, table.database, table.name, table.columns, path)

    def broken(self, lake: Lake, files: FileList) -> str | None:
        def differs(found: PartitionedTable) -> str | None:
            if (found.server, found.database) != (self.server, self.database):
                was, now = f"{self.database} on server {self.server}", f"{found.database} on server {found.server}"
                return f"{self.table} was planned in {was}, and the connection now leads to {now}"
            if found.columns != self.columns:
                now, then = ", ".join(found.columns), ", ".join(self.columns)
                return f"{found} was partitioned by {then} and is now partitioned by {now}"
            return None

        return _compared(lake, self.table, self.file, differs)


@requirement
@dataclass(frozen=True)
class PartitionsAre:
    """Neighbouring partitions of a table exist as planned: these names and bounds, above this lower bound."""

    table: str
    after: Position | None
    partitions: tuple[tuple[str, Position | None], ...]
    file: str | None = None
    kind: ClassVar[str] = "partitions"
    identifies: ClassVar[bool] = False

    def broken(self, lake: Lake, files: FileList) -> str | None:
        def differs(found: PartitionedTable) -> str | None:
            planned = tuple(Partition(name, bound) for name, bound in self.partitions)
            if has_partitions(found, self.after, planned):
                return None
            names = ", ".join(name for name, _ in self.partitions)
            return f"{found} no longer has the partitions {names} with their planned bounds"

        return _compared(lake, self.table, self.file, differs)


@requirement
@dataclass(frozen=True)
class PartitionIs:
    """A table has a partition with this name and bound, whatever its neighbours are."""

    table: str
    partition: str
    bound: Position | None
    file: str | None = None
    kind: ClassVar[str] = "partition"
    identifies: ClassVar[bool] = False

    @staticmethod
    def of(table: PartitionedTable, partition: Partition, file: Path | None) -> PartitionIs:
        return PartitionIs(table.name, partition.name, partition.bound, None if file is None else str(file))

    def broken(self, lake: Lake, files: FileList) -> str | None:
        def differs(found: PartitionedTable) -> str | None:
            planned = Partition(self.partition, self.bound)
            return (
                None if planned in found.partitions else f"{found} no longer has partition {self.partition} as planned"
            )

        return _compared(lake, self.table, self.file, differs)


def has_partitions(table: PartitionedTable, after: Position | None, planned: tuple[Partition, ...]) -> bool:
    """Whether these partitions are neighbours in a table, above this lower bound."""
    if planned[0] not in table.partitions:
        return False
    place = table.partitions.index(planned[0])
    same = table.partitions[place : place + len(planned)] == planned
    return same and table.lower_bound(planned[0]) == after


def required(table: PartitionedTable, partitions: tuple[Partition, ...], file: Path | None) -> tuple[Requirement, ...]:
    """What an action on neighbouring partitions of a table requires."""
    path = None if file is None else str(file)
    planned = tuple((partition.name, partition.bound) for partition in partitions)
    return (
        DatabaseTableIs.of(table, file),
        PartitionsAre(table.name, table.lower_bound(partitions[0]), planned, path),
    )


def _compared(
    lake: Lake, table: str, file: str | None, differs: Callable[[PartitionedTable], str | None]
) -> str | None:
    with Reading(sequences_of(lake.settings, file)) as connection:
        return differs(read_table(connection, table))
