"""`sequence archive`."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.errors import LakewardenError
from lakewarden.features.sequence.ages import Age
from lakewarden.features.sequence.archives import ArchiveTable, archive_name
from lakewarden.features.sequence.checksums import in_database
from lakewarden.features.sequence.columns import columns_of
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.copying import address_of, copy, partition_rows
from lakewarden.features.sequence.partitions import read_table
from lakewarden.features.sequence.retirement import Proposed, Retirement, RetirementRequest, plan_each
from lakewarden.features.sequence.stamps import Copied
from lakewarden.features.sequence.target import (
    DatabaseTableIs,
    PartitionIs,
    partition_lease,
    sequences_of,
)
from lakewarden.lifecycle.action import Action, Finding, Outcome, digest
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Operation

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer

_BYTES_PER_SECOND = 10 << 20  # a rough guess, for estimates


class Archive(RetirementRequest, Operation):
    """Copy partitions past retention into an Iceberg table, and compare both.

    Spark reads the rows in parallel ranges. They are published only if the database and the new files have the same
    row count and the same checksum of every column, in one commit that records which partition it is. A partition is
    archived once; its rows stay in the database until `sequence drop`.
    """

    again: bool = Field(False, description="Also replace copies of partitions whose rows are still in the database.")

    def plan(self, lake: Reader) -> Plan:
        address_of(self.sequences(lake.settings))
        lake.settings.default_lake  # noqa: B018 - raises if there is none
        return plan_each(self, lake, self._propose)

    def holds(self, action: Action, lake: Reader) -> bool:
        archive = _archive(action, lake)
        found = _copied(action, archive)
        if found is None:
            return False
        return digest(found.text) != action.arguments["replaces"] or self._is_unchanged(action, archive, found, lake)

    def _is_unchanged(self, action: Action, archive: ArchiveTable, copied: Copied, lake: Reader) -> bool:
        """Whether the archive has the rows that the database has, and its stamp says so: then nothing is replaced.

        A stamp may be of other rows: after a purge of the archive, or if the database dropped a column.
        """
        with Reading(sequences_of(lake.settings, self.file)) as connection:
            table, name = read_table(connection, str(action.arguments["table"])), str(action.arguments["partition"])
            partition = next((each for each in table.partitions if each.name == name), None)
            if partition is None:
                return False
            columns = columns_of(connection, table.name)
            there = in_database(connection, partition_rows(table, partition), table.columns, columns)
        if there.differences(copied.checksums):
            return False
        return not there.differences(archive.checksums(name, table.columns, columns))

    def apply(self, action: Action, lake: Writer) -> Outcome:
        sequences = sequences_of(lake.settings, self.file)
        with Reading(sequences) as connection:
            table = read_table(connection, str(action.arguments["table"]))
        copied = copy(lake, sequences, _archive(action, lake), table, str(action.arguments["partition"]))
        return Outcome({"partitions": 1, "rows": copied.rows})

    def verify(self, plan: Plan, lake: Reader) -> list[Finding]:
        return [finding for action in plan.actions for finding in self._verified(action, lake)]

    def tidy(self, action: Action, lake: Writer) -> None:
        lake.sweep(str(action.arguments["archive"]))

    def ended(self, plan: Plan, failures: Collection[str], lake: Writer) -> None:
        """Remove what killed and failed runs staged in the archives, and never published."""
        sequences = self.sequences(lake.settings)
        for table in self.chosen(sequences):
            with suppress(LakewardenError):  # it does not exist, or the next run removes them
                lake.staging.sweep(str(archive_name(lake, sequences, table)), whole_operation=True)

    def _verified(self, action: Action, lake: Reader) -> list[Finding]:
        """Whether main has the rows with which the partition was recorded."""
        archive, partition = _archive(action, lake), str(action.arguments["partition"])
        copied = _copied(action, archive)
        if copied is None:
            return [Finding(action.subject, f"not the case after applying: {action.says}")]
        stamp = copied.checksums
        found = archive.checksums(partition, action.texts("position"), archive.columns(stamp.sums))
        differs = stamp.differences(found)
        return [Finding(action.subject, f"{archive.name} differs from what was copied: {differs}")] if differs else []

    def _propose(self, found: Retirement, connection: Reading) -> Proposed:
        assert found.archive is not None
        table, archive = found.table, found.archive
        if not found.due:
            return Proposed(warnings=found.notes)
        archive.check(columns_of(connection, table.name))
        actions, warnings = list[Action](), [*found.notes]
        there = archive.also_in(table, found.twins)
        for age in found.due:
            name = age.partition.name
            stamped = archive.stamps.get(name)
            known = stamped.copied if stamped else None
            if self.partition and name not in self.partition:
                continue
            if known is not None and known.below != age.partition.bound:
                warnings.append(f"{found.subject(name)}: the archive has another partition of this name; rename it")
            elif known is None and (renamed := archive.renamed(connection, table, there, name)):
                warnings.append(
                    f"{found.subject(name)} has rows of the range that was archived as {renamed}; rename it"
                )
            elif name not in archive.copies or self.again:
                actions.append(self._action(found, age, archive, digest(known.text) if known else ""))
        return Proposed(tuple(actions), tuple(warnings))

    def _action(self, found: Retirement, age: Age, archive: ArchiveTable, replaces: str) -> Action:
        table, partition = found.table, age.partition
        youngest = f"{'' if age.is_exact else 'not after '}{age.youngest:%Y-%m-%d}" if age.youngest else ""
        return Action(
            verb="copy",
            subject=found.subject(partition.name),
            lease=partition_lease(table, partition.name),
            says=f"copy partition {partition.name} of {table}, youngest row {youngest}, to {archive.name}",
            arguments={
                "table": table.name,
                "source": str(table),
                "partition": partition.name,
                "below": partition.bound or (),
                "position": table.columns,
                "archive": str(archive.name),
                "replaces": replaces,
            },
            requires=(DatabaseTableIs.of(table, self.file), PartitionIs.of(table, partition, self.file)),
        )


def _archive(action: Action, lake: Reader) -> ArchiveTable:
    name = lake.tables.name(str(action.arguments["archive"]))
    return ArchiveTable(lake, name, str(action.arguments["source"]))


def _copied(action: Action, archive: ArchiveTable) -> Copied | None:
    """What main has of the action's partition, unless that is one of other rows with the same name."""
    found = archive.copies.get(str(action.arguments["partition"]))
    below = [int(str(each)) for each in action.texts("below")]
    return found if found is not None and list(found.below or ()) == below else None
