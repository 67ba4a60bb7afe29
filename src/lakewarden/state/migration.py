"""Brings the schema of the control database up to date at first use, under a lock.

A database that is current costs one small query: Alembic takes a third of a second to import, and is
imported only where there is something to migrate. A database that a newer Lakewarden wrote is refused.
A revision is a file in `migrations/versions`, whose name begins with its number; there is no other list of them.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, column, func, inspect, select, table

from lakewarden.errors import StateUnavailable

HISTORY = tuple(sorted(p.name.partition("_")[0] for p in (Path(__file__).parent / "migrations/versions").glob("*.py")))
"""Every revision there is, oldest first."""

HEAD = HISTORY[-1]

_LOCK = 0x6C616B65  # "lake": the number of PostgreSQL's advisory lock that migrations take


def revision(connection: Connection) -> str | None:
    """The revision that a database's schema is at, or nothing where it has none yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(select(column("version_num")).select_from(table("alembic_version")))


def is_current(connection: Connection, place: str) -> bool:
    """Whether there is nothing to migrate; raises where the schema is not one that this Lakewarden knows."""
    found = revision(connection)
    if found is not None and found not in HISTORY:
        raise StateUnavailable(
            f"{place} has schema revision {found}, and this Lakewarden knows none after {HEAD}: "
            "a newer Lakewarden wrote it",
            hint="Upgrade Lakewarden here, or give it a control database of its own.",
        )
    return found == HEAD


def migrate(connection: Connection, place: str) -> None:
    """Migrate within the writing transaction that `connection` is in; whoever comes second finds it done."""
    if connection.dialect.name == "postgresql":  # on SQLite, a writing transaction is the lock
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    if not is_current(connection, place):
        _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "lakewarden.state:migrations")
    config.set_main_option("path_separator", "os")
    command.upgrade(config, HEAD)
