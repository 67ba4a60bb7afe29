"""`sequence restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.errors import NotFound
from lakewarden.features.sequence import twins
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import about_rows, read_table
from lakewarden.features.sequence.retirement import Proposed, Retirement, RetirementRequest, plan_each
from lakewarden.features.sequence.target import DatabaseTableIs, altering, partition_lease
from lakewarden.features.sequence.twins import Twin, twin_of
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Operation

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer


class Restore(RetirementRequest, Operation):
    """Attach detached partitions again, with all their rows.

    That works until `sequence drop` has dropped them. `sequence drop` detaches them again if they are still past
    retention. Rows that were dropped are in the archive: see `sequence read`.
    """

    def plan(self, lake: Reader) -> Plan:
        def propose(found: Retirement, connection: Reading) -> Proposed:
            chosen = [twin for twin in found.twins if not self.partition or twin.partition in self.partition]
            missing = [name for name in self.partition if name not in {twin.partition for twin in chosen}]
            if missing:
                what = f"{', '.join(missing)} of {found.table} is not detached"
                raise NotFound(f"{what}; rows that were dropped are in the archive, for sequence read")
            counts = [(twin.partition, about_rows(connection, twin.name)) for twin in chosen]
            waits = f"while MariaDB checks them, nobody can read or write {found.table}"
            warnings = tuple(f"{found.subject(name)} has about {count:,} rows: {waits}" for name, count in counts)
            return Proposed(tuple(self._action(found, twin) for twin in chosen), warnings)

        return plan_each(self, lake, propose)

    def holds(self, action: Action, lake: Reader) -> bool:
        with Reading(self.sequences(lake.settings)) as connection:
            return _twin(connection, action) is None

    def apply(self, action: Action, lake: Writer) -> Outcome:
        with altering(lake, str(action.arguments["table"]), self.file) as connection:
            twin = _twin(connection, action)
            if twin is not None:
                twins.attach(connection, twin)
        return Outcome({"partitions": 1})

    def _action(self, found: Retirement, twin: Twin) -> Action:
        table = found.table
        return Action(
            verb="attach",
            subject=found.subject(twin.partition),
            lease=partition_lease(table, twin.partition),
            says=f"attach partition {twin.partition} of {table} again",
            arguments={"table": table.name, "partition": twin.partition, "bound": twin.bound or ()},
            requires=(DatabaseTableIs.of(table, self.file),),
        )


def _twin(connection: Reading, action: Action) -> Twin | None:
    table = read_table(connection, str(action.arguments["table"]))
    return twin_of(connection, table, str(action.arguments["partition"]))
