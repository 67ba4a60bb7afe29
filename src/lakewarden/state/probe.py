"""The doctor's checks of the control database. They create and migrate nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.basics import Check
from lakewarden.state.database import Database
from lakewarden.state.migration import HEAD, is_current, revision

log = logging.getLogger(__name__)

SKEW = timedelta(seconds=5)
"""How far this host's clock may differ from the database's without a warning."""

_LOG = "This is a bug; see the log."


class StateProbe:
    """Checks the control database; `remote_lakes` are lakes that several hosts can reach."""

    def __init__(self, database: Database, remote_lakes: Iterable[str] = ()) -> None:
        self._database = database
        self._remote_lakes = tuple(remote_lakes)

    def __call__(self) -> list[Check]:
        try:
            found = self._look()
        except StateUnavailable as error:
            found = [Check("control database", "failed", error.message, error.hint)]
        except Exception as bug:
            log.exception("looking at %s failed", self._database.place)
            found = [Check("control database", "failed", f"{self._database.place}: {type(bug).__name__}", _LOG)]
        return [*found, *self._sharing()]

    def _look(self) -> list[Check]:
        database, name = self._database, "SQLite" if self._database.kind == "sqlite" else "PostgreSQL"
        if not database.exists():
            return [Check("control database", "ok", f"{name}: {database.place} is created on first use")]
        with database.peek() as connection:
            before = database.host_clock()
            there = database.now(connection)
            after = database.host_clock()
            schema = revision(connection)
            checks = [Check("control database", "ok", f"{name}: {database.place} responds")]
            try:
                current = is_current(connection, database.place)
            except StateUnavailable as error:
                return [*checks, Check("control database schema", "failed", error.message, error.hint)]
        revisions = f"revision {HEAD}" if current else f"revision {schema or 'none'}, migrated to {HEAD} on first use"
        return [
            *checks,
            Check("control database schema", "ok", revisions),
            _clock(there - (before + (after - before) / 2)),
        ]

    def _sharing(self) -> list[Check]:
        if self._database.kind != "sqlite" or not self._remote_lakes:
            return []
        lakes = ", ".join(self._remote_lakes)
        return [
            Check(
                "control database sharing",
                "warning",
                f"SQLite, but the warehouse of {lakes} is remote: several hosts cannot share an SQLite database",
                "Use PostgreSQL: state: postgresql+psycopg://user:password@host/database",
            )
        ]


def _clock(ahead: timedelta) -> Check:
    """The difference between the clocks. Leases use the database's clock, so they are correct either way."""
    seconds = ahead.total_seconds()
    if abs(ahead) <= SKEW:
        return Check("control database clock", "ok", f"{abs(seconds):.1f} s from this host's")
    way = "ahead of" if seconds > 0 else "behind"
    return Check(
        "control database clock",
        "warning",
        f"{abs(seconds):.1f} s {way} this host's",
        "Synchronise both clocks with NTP: leases use the database's clock, the journal this host's.",
    )
