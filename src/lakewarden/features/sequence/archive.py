"""`sequence archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.features.sequence.ages import Age
from lakewarden.features.sequence.archives import ArchiveTable
from lakewarden.features.sequence.columns import columns_of
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.copying import address_of, copy
from lakewarden.features.sequence.partitions import read_table
from lakewarden.features.sequence.retirement import Proposed, Retirement, RetirementRequest, plan_each
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
        found = _archive(action, lake).copies.get(str(action.arguments["partition"]))
        if found is None or list(found.below or ()) != [int(str(each)) for each in action.texts("below")]:
            return False
        return digest(found.text) != action.arguments["replaces"]

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

    def _verified(self, action: Action, lake: Reader) -> list[Finding]:
        """Whether main has the rows with which the partition was recorded."""
        if not self.holds(action, lake):
            return [Finding(action.subject, f"not the case after applying: {action.says}")]
        archive, partition = _archive(action, lake), str(action.arguments["partition"])
        stamp = archive.copies[partition].checksums
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
        there = {each.name for each in table.partitions if archive.copy_of(each)} | {t.partition for t in found.twins}
        for age in found.due:
            name = age.partition.name
            known = archive.copies.get(name)
            if self.partition and name not in self.partition:
                continue
            if known is not None and known.below != age.partition.bound:
                warnings.append(f"{found.subject(name)}: the archive has another partition of this name; rename it")
            elif known is None and (renamed := archive.renamed(connection, table, there, name)):
                warnings.append(
                    f"{found.subject(name)} has rows of the range that was archived as {renamed}; rename it"
                )
            elif known is None or self.again:
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
