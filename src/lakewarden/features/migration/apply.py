"""`migration apply`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.errors import Conflict, StalePlan
from lakewarden.features.backfill import planning, writing
from lakewarden.features.backfill.files import all_files
from lakewarden.features.backfill.job import leave
from lakewarden.features.backfill.position import position
from lakewarden.features.backfill.registration import Backfill, Database, Place, place_of, register, registered_at
from lakewarden.features.migration.files import Migration, all_migrations
from lakewarden.features.migration.record import Applied, applied, fingerprint, note
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.requirement import table_lease

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakewarden.lifecycle.ground import Reader, Writer

CREATE, DEFINE, COMPLETE, START = "create-namespace", "define", "complete", "start"
_SHOWN = 100  # letters of a statement


class Apply(Operation):
    """Apply the migrations that a database does not have yet, in their order.

    Each statement is one action, and recorded in the properties of the namespace. One that was applied before a crash
    is recognised and not repeated. A migration that is complete registers the backfills of its version.
    """

    database: Database

    def plan(self, lake: Reader) -> Plan:
        place = place_of(lake, self.database)
        actions: list[Action] = []
        catalog = lake.tables.catalog(lake.tables.name(f"{self.database}.x"))
        for migration in all_migrations(lake):
            known = applied(lake, place, migration)
            if known is not None and known.complete:
                continue
            if known is not None and known.digest != migration.digest:
                raise Conflict(
                    f"{migration.path} was changed after {known.done} of its statements were applied",
                    "Restore the file, apply it, and write another migration.",
                )
            if not actions and not catalog.namespace_exists(place.namespace):
                actions.append(_action(place, CREATE, f"create the namespace {place.name}", {}))
            actions += self._actions(lake, place, migration, known.done if known else 0)
        return Plan(self.kind(), str(place), tuple(actions))

    def holds(self, action: Action, lake: Reader) -> bool:
        place = place_of(lake, self.database)
        if action.verb == CREATE:
            return bool(lake.tables.catalog(lake.tables.name(f"{self.database}.x")).namespace_exists(place.namespace))
        migration = _migration(lake, action)
        known = applied(lake, place, migration)
        if action.verb == COMPLETE:
            return known is not None and known.complete and not _unregistered(lake, place, migration)
        if action.verb == START:
            return all(_is_complete(lake, backfill) for backfill in _own(lake, place, migration))
        if known is None or known.done < action.number("statement"):
            return False
        if known.done > action.number("statement"):
            return True
        statement = migration.statements(place.namespace)[known.done]
        return bool(known.before) and known.before != fingerprint(lake, place, statement)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        place = place_of(lake, self.database)
        if action.verb == CREATE:
            lake.tables.catalog(lake.tables.name(f"{self.database}.x")).create_namespace_if_not_exists(place.namespace)
            return Outcome()
        migration, now = _migration(lake, action), lake.clock().isoformat()
        number = action.number("statement")
        known = applied(lake, place, migration) or Applied(migration.name, migration.digest, 0, "", now)
        if action.verb == COMPLETE:
            for backfill in _unregistered(lake, place, migration):
                register(lake, backfill, lake.clock())
            reach("migration.registered")
            done = len(migration.statements(place.namespace))
            note(lake, place, migration, replace(known, done=done, before="", at=now, complete=True))
            return Outcome({"migrations": 1})
        if action.verb == START:
            return _start(lake, _own(lake, place, migration))
        statement = migration.statements(place.namespace)[number]
        note(lake, place, migration, replace(known, done=number, before=fingerprint(lake, place, statement)))
        reach("migration.noted")
        lake.definitions(place.lake).run(statement.text)
        reach("migration.applied")
        note(lake, place, migration, replace(known, done=number + 1, before=""))
        return Outcome({"statements": 1})

    def ended(self, plan: Plan, failures: Collection[str], lake: Writer) -> None:
        leave(lake)

    def stopped(self, plan: Plan, lake: Writer) -> None:
        leave(lake)

    def _actions(self, lake: Reader, place: Place, migration: Migration, done: int) -> list[Action]:
        """What is left of one migration."""
        actions = []
        statements = migration.statements(place.namespace)
        which: dict[str, str | int] = {"version": migration.version, "digest": migration.digest}
        for number, statement in enumerate(statements[done:], start=done):
            shown = " ".join(statement.text.split())
            says = f"{migration.version}: {shown if len(shown) < _SHOWN else shown[:_SHOWN] + '…'}"
            actions.append(_action(place, DEFINE, says, {**which, "statement": number}))
        actions.append(_action(place, COMPLETE, f"record {migration.version}_{migration.name}", which))
        for backfill in _own(lake, place, migration):
            backfill.insertion  # noqa: B018 - refuses wrong files before anything is changed
            if backfill.files.meta.run_on_startup:
                start = _action(place, START, f"run backfill {backfill.id}", {**which, "backfill": backfill.id})
                actions.append(replace(start, lease=_lease_of_target(lake, backfill) or start.lease))
        return actions


def _action(place: Place, verb: str, says: str, arguments: dict[str, str | int]) -> Action:
    return Action(verb=verb, subject=str(place), lease=f"namespace:{place}", says=says, arguments=arguments)


def _lease_of_target(lake: Reader, backfill: Backfill) -> str:
    """The lease of the table that a backfill writes to; empty if the migration is to create it."""
    uuid = lake.tables.uuid(str(backfill.target(lake)))
    return table_lease(uuid) if uuid else ""


def _migration(lake: Reader, action: Action) -> Migration:
    version = str(action.arguments["version"])
    found = next((each for each in all_migrations(lake) if each.version == version), None)
    if found is None or found.digest != action.arguments["digest"]:
        raise StalePlan(f"the plan is stale: the file of migration {version} changed", "Nothing was done. Plan again.")
    return found


def _own(lake: Reader, place: Place, migration: Migration) -> list[Backfill]:
    """The backfills of a migration's version."""
    return [Backfill(place, each) for each in all_files(lake) if int(each.version) == int(migration.version)]


def _unregistered(lake: Reader, place: Place, migration: Migration) -> list[Backfill]:
    return [each for each in _own(lake, place, migration) if registered_at(lake, each) is None]


def _is_complete(lake: Reader, backfill: Backfill) -> bool:
    at = position(lake.tables.load(backfill.target(lake)), backfill.id)
    return at is not None and at.complete


def _start(lake: Writer, backfills: list[Backfill]) -> Outcome:
    """Write all batches of backfills within one action: each batch is a commit of its own, as ever."""
    written = 0
    for backfill in backfills:
        batches = planning.plan(lake, backfill, again=False).actions
        for place, batch in enumerate(batches):
            writing.write(lake, backfill, batch, list(batches[place + 1 :]))
            written += 1
            lake.progress(place + 1, len(batches), f"batch {place + 1} of {len(batches)} of backfill {backfill.id}")
    return Outcome({"batches": written})
