"""`sequence drop`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.features.sequence import dropping
from lakewarden.features.sequence.ages import Age
from lakewarden.features.sequence.archives import ArchiveTable
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dropping import Target
from lakewarden.features.sequence.partitions import Partition, Position, read_table
from lakewarden.features.sequence.retirement import Proposed, Retirement, RetirementRequest, plan_each
from lakewarden.features.sequence.target import DatabaseTableIs, PartitionIs, partition_lease
from lakewarden.features.sequence.twins import Twin, twin_of
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Operation

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer

_DETACH, _DROP = "detach", "drop"


class Drop(RetirementRequest, Operation):
    """Detach archived partitions past retention, and drop them once their grace has ended.

    A detached partition is a table beside the database table. Its rows are compared with the archive; if one changed
    since it was archived, the partition is attached again and nothing is dropped. After the grace its rows are compared
    once more and dropped; until then `sequence restore` brings them back.
    """

    destructive = True

    without_archive: bool = Field(False, description="Also partitions that were not archived: their rows are lost.")

    def plan(self, lake: Reader) -> Plan:
        sequences, now = self.sequences(lake.settings), lake.clock()

        def propose(found: Retirement, connection: Reading) -> Proposed:
            grace = sequences.grace_of(found.table.name)
            twins = [self._of_twin(found, each, grace, now) for each in found.twins if self._is_chosen(each.partition)]
            hot = [self._of_hot(found, each) for each in found.due if self._is_chosen(each.partition.name)]
            actions = tuple(each for each in (*twins, *hot) if isinstance(each, Action))
            return Proposed(actions, (*found.notes, *(each for each in (*twins, *hot) if isinstance(each, str))))

        return plan_each(self, lake, propose)

    def _of_twin(self, found: Retirement, twin: Twin, grace: timedelta, now: datetime) -> Action | str:
        """What is done with a detached partition, or why it is kept."""
        partition, about = Partition(twin.partition, twin.bound), found.subject(twin.partition)
        if twin.is_archived and found.archive is None:
            return f"{about} is kept: it was archived, and no lake is configured to compare it with"
        if twin.since is None:
            return self._action(_DETACH, found, partition, twin.is_archived)
        if twin.since + grace > now:
            return f"{about} is detached, and can be restored until {twin.since + grace:%Y-%m-%d %H:%M}"
        if twin.is_archived or self.without_archive:
            return self._action(_DROP, found, partition, twin.is_archived)
        return f"{about} is kept: it was detached without an archive"

    def _of_hot(self, found: Retirement, age: Age) -> Action | str:
        """What is done with a partition that is due, or why it is kept."""
        is_archived = found.archive is not None and found.archive.copy_of(age.partition) is not None
        if is_archived or (self.without_archive and age.is_exact):
            return self._action(_DETACH, found, age.partition, is_archived)
        why = "no date query dates it" if self.without_archive else "it is not archived"
        return f"{found.subject(age.partition.name)} is kept: {why}"

    def holds(self, action: Action, lake: Reader) -> bool:
        name, partition = str(action.arguments["table"]), _partition(action)
        with Reading(self.sequences(lake.settings)) as connection:
            table = read_table(connection, name)
            known = twin_of(connection, table, partition.name)
        if action.verb == _DETACH:
            return known is not None and known.since is not None
        return known is None and partition not in table.partitions

    def apply(self, action: Action, lake: Writer) -> Outcome:
        archive = None
        if action.arguments["archive"] is not None:
            name = lake.tables.name(str(action.arguments["archive"]))
            archive = ArchiveTable(lake, name, str(action.arguments["source"]))
        target = Target(str(action.arguments["table"]), _partition(action), archive, self.file)
        if action.verb == _DETACH:
            dropping.detach(lake, target, lake.clock())
            return Outcome({"detached": 1})
        dropping.drop(lake, target)
        return Outcome({"dropped": 1})

    def _is_chosen(self, partition: str) -> bool:
        return not self.partition or partition in self.partition

    def _action(self, verb: str, found: Retirement, partition: Partition, is_archived: bool) -> Action:
        table, name = found.table, partition.name
        there = (PartitionIs.of(table, partition, self.file),)
        archived = f", archived in {found.archive.name}" if is_archived and found.archive else ", not archived"
        return Action(
            verb=verb,
            subject=found.subject(name),
            lease=partition_lease(table, name),
            says=f"{verb} partition {name} of {table}{archived}",
            arguments={
                "table": table.name,
                "source": str(table),
                "partition": name,
                "bound": partition.bound or (),
                "archive": str(found.archive.name) if is_archived and found.archive else None,
            },
            requires=(DatabaseTableIs.of(table, self.file), *(there if verb == _DETACH else ())),
        )


def _partition(action: Action) -> Partition:
    bound: Position = tuple(int(each) for each in action.texts("bound"))
    return Partition(str(action.arguments["partition"]), bound or None)
