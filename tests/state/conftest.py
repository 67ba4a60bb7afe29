"""Control databases of both kinds for the tests of `state/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.lifecycle.journal import Journal
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from tests.lifecycle.memory_stores import MemoryJournal
from tests.new_lake import new_state

if TYPE_CHECKING:
    from tests.services.postgres import Postgres

KINDS = ["sqlite", "postgres"]


@pytest.fixture(scope="session")
def migrated_postgres(postgres: Postgres) -> Iterator[Database]:
    """One PostgreSQL database with its schema, for tests that only care about rows."""
    database = Database(postgres.new_database())
    yield database
    database.close()


@pytest.fixture
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Database]:
    """Makes a control database of a kind, without any rows in it."""

    def make(kind: str) -> Database:
        if kind == "sqlite":
            database = Database(new_state(tmp_path / "state.db"))
            request.addfinalizer(database.close)
            return database
        shared: Database = request.getfixturevalue("migrated_postgres")
        with shared.begin() as connection:
            connection.exec_driver_sql("TRUNCATE operations, steps, action_files, leases")
        return shared

    return make


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, rows: Callable[[str], Database]) -> Database:
    """A control database without rows, once of each kind."""
    return rows(request.param)


@pytest.fixture(params=["memory", *KINDS])
def journal(request: pytest.FixtureRequest, rows: Callable[[str], Database]) -> Journal:
    """A journal without operations, once of each kind."""
    return MemoryJournal() if request.param == "memory" else SqlJournal(rows(request.param))


@pytest.fixture(params=KINDS)
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a control database that nothing ever used, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fresh.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()
