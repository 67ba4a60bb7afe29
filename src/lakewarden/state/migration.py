"""Migrates the schema of the control database on first use, under a lock.

An up-to-date database costs one small query: Alembic takes a third of a second to import, so it is imported only if
there is something to migrate. A database written by a newer Lakewarden is refused. Each revision is a file in
`migrations/versions`, whose name begins with its number; there is no other list of them.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, column, func, inspect, select, table

from lakewarden.errors import StateUnavailable

HISTORY = tuple(sorted(p.name.partition("_")[0] for p in (Path(__file__).parent / "migrations/versions").glob("*.py")))
"""All revisions, oldest first."""

HEAD = HISTORY[-1]

_LOCK = 0x6C616B65  # "lake": the id of the advisory lock for migrations


def revision(connection: Connection) -> str | None:
    """The revision of a database's schema; None if it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(select(column("version_num")).select_from(table("alembic_version")))


def is_current(connection: Connection, place: str) -> bool:
    """Whether there is nothing to migrate; raises if the schema is unknown."""
    found = revision(connection)
    if found is not None and found not in HISTORY:
        raise StateUnavailable(
            f"{place} has schema revision {found}, but this version of Lakewarden supports only up to {HEAD}: "
            "a newer version wrote it",
            hint="Upgrade Lakewarden here, or use a separate control database.",
        )
    return found == HEAD


def migrate(connection: Connection, place: str) -> None:
    """Migrate within the write transaction of `connection`; of several processes, the second finds it done."""
    if connection.dialect.name == "postgresql":  # on SQLite, the write transaction is the lock
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
