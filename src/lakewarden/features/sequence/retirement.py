"""Looks at what is past retention in a database table, and how far it has been archived and detached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.errors import LakewardenError
from lakewarden.features.sequence.ages import Age, ages
from lakewarden.features.sequence.archives import ArchiveTable, archive_name
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import PartitionedTable, read_table
from lakewarden.features.sequence.target import SequenceRequest, database_lease
from lakewarden.features.sequence.twins import Twin, twins_of
from lakewarden.lifecycle.action import Action, Finding
from lakewarden.lifecycle.plan import Plan

if TYPE_CHECKING:
    from lakewarden.config import SequenceSettings
    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class Retirement:
    """A database table and what became of its partitions."""

    table: PartitionedTable
    archive: ArchiveTable | None
    """None if the installation has no lake."""
    twins: tuple[Twin, ...]
    due: tuple[Age, ...]
    """The partitions past retention that are not detached."""
    notes: tuple[str, ...] = ()
    """What people should know about what is due."""

    def subject(self, partition: str) -> str:
        return f"{self.table}.{partition}"


class RetirementRequest(SequenceRequest):
    """A request to change old partitions, each of which is a subject of its own."""

    partition: list[str] = Field([], description="Only these partitions.")

    def barred(self, lake: Reader) -> str:
        return "noop: true is configured" if self.sequences(lake.settings).noop else ""


@dataclass(frozen=True)
class Proposed:
    """What an operation would do to one table."""

    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()


def look_at(lake: Reader, sequences: SequenceSettings, connection: Reading, name: str) -> Retirement:
    table, settings = read_table(connection, name), sequences.table(name)
    archive = None
    if lake.settings.lakes:
        archive = ArchiveTable(lake, archive_name(lake, sequences, name), str(table))
    twins, kept_for = twins_of(connection, table), settings.kept_for
    if kept_for is None:
        return Retirement(table, archive, tuple(twins), (), (f"{table} has no retention: nothing is due",))
    detached = {twin.partition for twin in twins}
    recorded = lake.state.sequence.positions(database_lease(table))
    hot = [each for each in ages(connection, sequences, table, recorded) if each.partition.name not in detached]
    undated = [each.partition.name for each in hot if each.youngest is None]
    notes = [f"{table}: no date is known for {', '.join(undated)}; they are kept"] if undated else []
    due = tuple(each for each in hot if each.is_past(kept_for, lake.clock()))
    if not all(each.is_exact for each in due):
        notes.append(f"{table} has no date query: recorded positions, or names and one period more, say what is due")
    return Retirement(table, archive, tuple(twins), due, tuple(notes))


def plan_each(request: RetirementRequest, lake: Reader, propose: Callable[[Retirement, Reading], Proposed]) -> Plan:
    """Plan for each table alone: one that cannot be planned does not stop the others."""
    sequences = request.sequences(lake.settings)
    names, parts, refused = request.chosen(sequences), list[Proposed](), list[Finding]()
    with Reading(sequences) as connection:
        for name in names:
            try:
                parts.append(propose(look_at(lake, sequences, connection, name), connection))
            except LakewardenError as error:
                refused.append(Finding(f"{connection.database}.{name}", error.message))
        target = (
            f"{connection.database}.{names[0]}" if len(names) == 1 else f"{connection.database}: {len(names)} tables"
        )
    return Plan(
        request.address().kind,
        target,
        tuple(action for part in parts for action in part.actions),
        tuple(warning for part in parts for warning in part.warnings),
        tuple(refused),
    )
