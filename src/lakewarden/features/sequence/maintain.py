"""`sequence maintain`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lakewarden.config import SequenceSettings
from lakewarden.errors import LakewardenError, UnfitDatabase
from lakewarden.features.sequence import metrics
from lakewarden.features.sequence.connection import ALTER_SECONDS, Reading
from lakewarden.features.sequence.intention import intended
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position, is_empty, read_table
from lakewarden.features.sequence.reorganizing import Reorganization, limit, reorganizations
from lakewarden.features.sequence.statistics import statistics
from lakewarden.features.sequence.survey import Survey, survey
from lakewarden.features.sequence.target import SequenceRequest, altering, database_lease, has_partitions, required
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Operation
from lakewarden.records.sequence import RecordedPosition

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer

_ROUTE = "ALTER TABLE"


@dataclass
class AlterTimes:
    """The seconds that statements of a run took, by table."""

    seconds: dict[str, float] = field(default_factory=dict)


class Maintain(Operation, SequenceRequest):
    """Keep empty partitions ahead of the rows of database tables.

    From dates and positions that are known, it estimates how fast each table fills, predicts when each empty partition
    will be reached, and adds, renames or moves empty partitions where that matters. Partitions with rows are never
    touched: each is proved to be empty at planning and right before each ALTER. A table that cannot be maintained
    does not stop the others.
    """

    noop: bool = Field(False, description="Only show the plan; it cannot be applied.")
    days: float | None = Field(None, gt=0, description="Days that a partition should take to fill, for all tables.")

    def plan(self, lake: Reader) -> Plan:
        sequences = self.sequences(lake.settings)
        actions: list[Action] = []
        warnings = [f"{self.barred(lake)}: this plan cannot be applied"] if self.barred(lake) else []
        refused: list[Finding] = []
        tables: dict[str, Any] = {}
        with Reading(sequences) as connection:
            connection.check_writable()
            for name in self.chosen(sequences):
                about = f"{connection.database}.{name}"
                try:
                    found = self._surveyed(lake, connection, sequences, name)
                    if isinstance(found, PartitionedTable):
                        warnings.append(f"{about} has no rows yet, so nothing is planned")
                        continue
                    intention = self._intended(found, sequences)
                    tables[about] = _lists(found, intention)
                    actions += [self._action(found, each) for each in reorganizations(found.parts.empty, intention)]
                    warnings += [] if found.outlook else [f"{about} is not known to fill yet: run this again in a day"]
                except LakewardenError as error:
                    named = error.message if about in error.message else f"{about}: {error.message}"
                    refused.append(Finding(about, f"{named}. {error.hint}".rstrip()))
        target = ", ".join(self.chosen(sequences)) if len(self.chosen(sequences)) < 4 else "tables of the database"
        details = {"tables": tables} if tables else {}
        return Plan(self.kind(), target, tuple(actions), tuple(warnings), tuple(refused), details=details)

    def barred(self, lake: Reader) -> str:
        if self.noop:
            return "--noop was given"
        return "noop: true is configured" if self.sequences(lake.settings).noop else ""

    def holds(self, action: Action, lake: Reader) -> bool:
        with Reading(self.sequences(lake.settings)) as connection:
            table = read_table(connection, str(action.arguments["table"]))
        return has_partitions(table, _bound(str(action.arguments["after"])), _new(action))

    def apply(self, action: Action, lake: Writer) -> Outcome:
        name = str(action.arguments["table"])

        def prove_empty(connection: Reading) -> None:
            table = read_table(connection, name)
            for partition in action.texts("partitions"):
                if not is_empty(connection, table, partition):
                    raise UnfitDatabase(f"rows have reached partition {partition} of {table}", "Plan again.")

        reach("sequence.altering")
        with altering(lake, name, self.file) as connection:
            seconds = connection.alter(str(action.arguments["sql"]), prove_empty, ALTER_SECONDS)
        reach("sequence.altered")
        times = lake.kept(AlterTimes).seconds
        times[name] = times.get(name, 0.0) + seconds
        return Outcome({"alters": 1, "alter_seconds": round(seconds, 3)})

    def ended(self, plan: Plan, failures: Collection[str], lake: Writer) -> None:
        """Record where each table is, and write the metrics."""
        sequences = self.sequences(lake.settings)
        found = []
        with Reading(sequences) as connection:
            for name in self.chosen(sequences):
                try:
                    surveyed = self._surveyed(lake, connection, sequences, name)
                    found.append(statistics(connection, sequences, surveyed, lake.clock()))
                except LakewardenError:
                    continue
                if isinstance(surveyed, Survey):
                    at = RecordedPosition(lake.clock(), surveyed.position)
                    lake.state.sequence.record(database_lease(surveyed.table), at)
            failed = [name for name in self.chosen(sequences) if f"{connection.database}.{name}" in failures]
        if sequences.prometheus_stats is not None:
            times, now = lake.kept(AlterTimes).seconds, lake.clock()
            metrics.write(sequences.prometheus_stats, found, now, times, failed, sequences.tables)

    def _surveyed(
        self, lake: Reader, connection: Reading, sequences: SequenceSettings, name: str
    ) -> Survey | PartitionedTable:
        period = self._period(sequences, name)
        return survey(connection, sequences, name, lake.state.sequence.positions, lake.clock(), period)

    def _period(self, sequences: SequenceSettings, name: str) -> timedelta:
        return timedelta(days=self.days) if self.days is not None else sequences.period(name)

    def _intended(self, found: Survey, sequences: SequenceSettings) -> tuple[Partition, ...]:
        if found.outlook is not None:
            period = self._period(sequences, found.table.name)
            return intended(found.parts, found.outlook, period, sequences.num_empty)
        if len(found.parts.empty) >= sequences.num_empty:
            return found.parts.empty
        raise UnfitDatabase(
            "it is not known how fast the table fills, and it needs more empty partitions",
            "Configure earliest_utc_timestamp_query, or run this again in a day: positions are recorded.",
        )

    def _action(self, found: Survey, change: Reorganization) -> Action:
        table, outlook = found.table, found.outlook
        sql, columns = change.sql(table), len(table.columns)
        rates = [f"{r.per_day:,.1f} ({r.low:,.1f} to {r.high:,.1f})" for r in (outlook.rates if outlook else ())]
        return Action(
            verb="reorganize",
            subject=str(table),
            lease=database_lease(table),
            says=sql,
            arguments={
                "table": table.name,
                "sql": sql,
                "partitions": tuple(partition.name for partition in change.old),
                "after": _text(table.lower_bound(change.old[0]), columns),
                "into": tuple(partition.name for partition in change.new),
                "bounds": tuple(_text(partition.bound, columns) for partition in change.new),
            },
            requires=required(table, change.old, self.file),
            expects={"alters": 1},
            route=_ROUTE,
            because=f"the table fills by {' and '.join(rates)} a day",
        )


def _lists(found: Survey, intention: Sequence[Partition]) -> dict[str, Any]:
    """The partitions that have rows, the empty ones, and the empty ones as they should be with when they will fill."""

    def shown(partition: Partition) -> dict[str, Any]:
        return {"name": partition.name, "less_than": limit(partition.bound, len(found.table.columns))}

    lower, predicted = found.parts.active.bound, []
    for partition in intention:
        start = found.outlook.reached(lower).at if found.outlook and lower else None
        predicted.append({**shown(partition), "fills_from": start.isoformat() if start else None})
        lower = partition.bound or lower
    rates = found.outlook.rates if found.outlook else ()
    return {
        "position": list(found.position),
        "per_day": [{"estimate": rate.per_day, "low": rate.low, "high": rate.high} for rate in rates],
        "non_empty": [shown(partition) for partition in found.parts.non_empty],
        "empty": [shown(partition) for partition in found.parts.empty],
        "intended": predicted,
    }


def _new(action: Action) -> tuple[Partition, ...]:
    both = zip(action.texts("into"), action.texts("bounds"), strict=True)
    return tuple(Partition(name, _bound(bound)) for name, bound in both)


def _text(bound: Position | None, columns: int) -> str:
    return limit(bound, columns).strip("()")


def _bound(text: str) -> Position | None:
    return None if "MAXVALUE" in text else tuple(int(part) for part in text.split(","))
