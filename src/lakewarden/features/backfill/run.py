"""`backfill run`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakewarden.errors import BadValue, Conflict
from lakewarden.features.backfill import planning, writing
from lakewarden.features.backfill.job import Written, leave
from lakewarden.features.backfill.pace import SECONDS
from lakewarden.features.backfill.planning import Planned
from lakewarden.features.backfill.registration import Backfill, Database, backfill_of, registered
from lakewarden.lifecycle.action import Finding, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation
from lakewarden.lifecycle.states import Stop

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Reader, Writer


class Run(TableOperation):
    """Run a backfill, or all of a database by priority, from where the target is.

    The source is pinned to its current version, read without rows that erasure requests hide, and divided into ranges
    of its checkpoint columns. One Spark job writes many batches; each is published by a commit of its own, which also
    records where the batch ends. So a run can be stopped or killed at any moment and continued without losing or
    doubling a row.
    """

    database: Database
    version: str | None = Field(None, description="The version of a backfill, as in 003 or 3.")
    all: bool = Field(False, description="All registered backfills of the database, by priority.")
    max_batches: int | None = Field(None, gt=0, description="Pause after this many batches.")
    again: bool = Field(False, description="Also write rows that arrived since, or that a rollback removed.")

    def plan(self, lake: Reader) -> Plan:
        actions: list[Action] = []
        warnings: list[str] = []
        chosen = self._chosen(lake)
        for backfill in chosen:
            planned = self._planned(lake, backfill, actions)
            actions += planned.actions
            warnings += [f"{backfill.id}: {warning}" for warning in planned.warnings]
        target = chosen[0].id if len(chosen) == 1 else f"{self.database}: {len(chosen)} backfills"
        return Plan(self.kind(), target, tuple(actions), tuple(warnings))

    def holds(self, action: Action, lake: Reader) -> bool:
        return writing.holds(lake, action)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return writing.write(lake, _backfill(lake, action), action, self._following(action, lake))

    def done_already(self, action: Action, lake: Writer) -> Outcome:
        return Outcome()  # what it was expected to do are no figures: when it was planned

    def verify(self, plan: Plan, lake: Reader) -> list[Finding]:
        with lake.tables.at_one_moment():
            return super().verify(plan, lake)

    def limit_reached(self, elapsed: timedelta, begun: int) -> Literal[Stop.BUDGET, Stop.PAUSE] | None:
        return Stop.PAUSE if self.max_batches is not None and begun >= self.max_batches else None

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        return {**result, SECONDS: round(result[SECONDS], 3)} if SECONDS in result else result

    def tidy(self, action: Action, lake: Writer) -> None:
        """Nothing: a run removes what killed ones left when it writes and publishes itself, once."""

    def ended(self, plan: Plan, failures: Collection[str], lake: Writer) -> None:
        leave(lake)

    def stopped(self, plan: Plan, lake: Writer) -> None:
        leave(lake)

    def _planned(self, lake: Reader, backfill: Backfill, before: list[Action]) -> Planned:
        """The batches of one backfill. One of many is left out if it cannot be run now."""
        if not self.all:
            return planning.plan(lake, backfill, self.again)
        read = {str(backfill.table(lake, each)) for each in backfill.insertion.tables}
        for action in before:
            if action.subject in read:
                why = f"left out, because it reads {action.subject}, which {action.arguments['backfill']} writes first"
                return Planned((), (f"{why}: run it afterwards",))
        try:
            return planning.plan(lake, backfill, self.again)
        except Conflict as error:
            return Planned((), (f"left out: {error.message}",))

    def _following(self, action: Action, lake: Writer) -> list[Action]:
        """The next batches of the same backfill in the running operation."""
        if (str(action.arguments["backfill"]), action.number("batch")) in lake.kept(Written).files:
            return []
        planned = lake.journal.get(lake.stamp.operation).plan.actions
        same = [each for each in planned if each.arguments["backfill"] == action.arguments["backfill"]]
        later = [each for each in same if each.number("batch") > action.number("batch")]
        return later[: self.max_batches - 1] if self.max_batches is not None else later

    def _chosen(self, lake: Reader) -> list[Backfill]:
        if self.all == (self.version is not None):
            raise BadValue("choose one backfill or all", "Give --version N or --all.")
        if self.version is not None:
            return [backfill_of(lake, self.database, self.version)]
        return list(registered(lake, self.database))


def _backfill(lake: Reader, action: Action) -> Backfill:
    return backfill_of(lake, str(action.arguments["database"]), str(action.arguments["version"]))
