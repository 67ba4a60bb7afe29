"""Leases in the control database; hosts with skewed clocks agree, because the database's time is used.

Acquiring a lease is one statement: insert it if it is new, take it over with the next epoch if it has expired, else
change nothing. A lease of a process of this machine that has ended is ended first. Renewing and releasing require the
holder's epoch. Rows are never deleted, so that no epoch is used twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select, Update, select, update
from sqlalchemy.dialects import postgresql, sqlite

from lakewarden.lifecycle.leases import Lease, lost, refuse
from lakewarden.lifecycle.processes import has_ended
from lakewarden.state.database import Database
from lakewarden.state.tables import leases


class SqlLeases:
    """Leases between all processes and hosts that share a control database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, key: str, label: str, operation: str, holder: str, timeout: timedelta) -> Lease:
        with self._database.begin() as connection:
            # On PostgreSQL this may wait for another transaction after it read the time. An earlier time is
            # safe: fewer leases count as expired, and this one ends sooner.
            now = self._database.now(connection)
            wanted = Lease(key, label, operation, holder, 1, now + timeout)
            taken = connection.execute(_take(self._database.kind, wanted, now)).first()
            if taken is None:
                current = _lease(connection.execute(_of_key(key)).one())
                if has_ended(current.holder):
                    connection.execute(_end(current, now))
                    taken = connection.execute(_take(self._database.kind, wanted, now)).first()
                if taken is None:
                    raise refuse(current)
            return _lease(taken)

    def renew(self, lease: Lease, timeout: timedelta) -> Lease:
        with self._database.begin() as connection:
            now = self._database.now(connection)
            if connection.execute(_put_off(lease, now, now + timeout)).rowcount == 0:
                raise lost(lease)
            return replace(lease, expires_at=now + timeout)

    def check(self, lease: Lease) -> None:
        with self._database.connect() as connection:
            current = connection.execute(_of_key(lease.key)).first()
            now = self._database.now(connection)  # read after the row, so that the query's duration counts
            if current is None or current.epoch != lease.epoch or current.expires_at <= now:
                raise lost(lease)

    def release(self, lease: Lease) -> None:
        with self._database.begin() as connection:
            connection.execute(_end(lease, self._database.now(connection)))

    def held(self) -> list[Lease]:
        with self._database.connect() as connection:
            found = [_lease(row) for row in connection.execute(_in_force(self._database.now(connection)))]
            return [lease for lease in found if not has_ended(lease.holder)]


def _lease(row: Row[Any]) -> Lease:
    return Lease(row.key, row.label, row.operation, row.holder, row.epoch, row.expires_at)


# --- queries ---------------------------------------------------------------------------------------


def _take(kind: str, wanted: Lease, now: datetime) -> Any:
    """Insert a lease, or take it over with the next epoch if it has expired; returns the row only if it did."""
    insert = postgresql.insert if kind == "postgresql" else sqlite.insert
    statement = insert(leases).values(vars(wanted))
    taken_over = {name: statement.excluded[name] for name in ("label", "operation", "holder", "expires_at")}
    return statement.on_conflict_do_update(
        index_elements=[leases.c.key],
        set_={**taken_over, "epoch": leases.c.epoch + 1},
        where=leases.c.expires_at <= now,
    ).returning(leases)


def _of_key(key: str) -> Select[Any]:
    """The lease of a key, expired or not."""
    return select(leases).where(leases.c.key == key)


def _in_force(now: datetime) -> Select[Any]:
    """The leases that have not expired."""
    return select(leases).where(leases.c.expires_at > now).order_by(leases.c.key)


def _put_off(lease: Lease, now: datetime, end: datetime) -> Update:
    """Extend a lease that its holder still has and that has not expired."""
    still_held = (leases.c.key == lease.key, leases.c.epoch == lease.epoch, leases.c.expires_at > now)
    return update(leases).where(*still_held).values(expires_at=end)


def _end(lease: Lease, now: datetime) -> Update:
    """End a lease now, unless another holder has it."""
    return update(leases).where(leases.c.key == lease.key, leases.c.epoch == lease.epoch).values(expires_at=now)
