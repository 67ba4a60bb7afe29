"""The schema migrates itself at first use; HEAD and the tables say what the revisions say.

Covers `state/migrations/env.py` and `state/migrations/versions/0001_control_state.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.states import Stop
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.migration import HEAD, HISTORY, migrate, revision
from lakewarden.state.tables import metadata


@pytest.fixture
def fresh(fresh_url: str) -> Iterator[Database]:
    with closing(Database(fresh_url)) as database:
        yield database


def test_history_is_alembics() -> None:
    config = Config()
    config.set_main_option("script_location", "lakewarden.state:migrations")
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [HEAD]
    assert tuple(reversed([step.revision for step in script.walk_revisions()])) == HISTORY


def test_first_use_makes_the_schema_that_the_queries_are_written_against(fresh: Database) -> None:
    with fresh.peek() as connection:
        assert revision(connection) is None
    assert SqlJournal(fresh).list() == []
    with fresh.connect() as connection:
        assert revision(connection) == HEAD
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_newer_schema_is_refused_and_left_alone(fresh: Database, fresh_url: str) -> None:
    with fresh.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with closing(Database(fresh_url)) as later:
        for attempt in (lambda: SqlJournal(later).list(), lambda: SqlJournal(later).request_stop("x", Stop.CANCEL)):
            with pytest.raises(StateUnavailable, match="revision 9999.*a newer version wrote it") as refused:
                attempt()
            assert "Upgrade Lakewarden" in refused.value.hint
        with later.peek() as connection:
            assert revision(connection) == "9999"


def test_who_comes_second_waits_and_finds_it_done(fresh: Database, fresh_url: str) -> None:
    with closing(Database(fresh_url)) as second, ThreadPoolExecutor(1) as thread:
        with fresh._writing() as connection:
            migrate(connection, fresh.place)
            found = thread.submit(SqlJournal(second).list)
            with pytest.raises(TimeoutError):
                found.result(0.3)
        assert found.result(10) == []


def test_a_migration_that_fails_leaves_nothing_behind(fresh: Database, fresh_url: str) -> None:
    with fresh.peek():
        pass  # makes the file
    with fresh._writing() as connection:
        connection.execute(text("CREATE TABLE leases (somebody TEXT)"))  # another tool's: revision 0001 cannot end
    with pytest.raises(StateUnavailable, match="already exists"):
        SqlJournal(fresh).list()
    with fresh._writing() as connection:
        assert revision(connection) is None
        connection.execute(text("DROP TABLE leases"))
    assert SqlJournal(fresh).list() == []


def test_alembic_is_not_imported_for_a_current_schema(fresh: Database, fresh_url: str) -> None:
    SqlJournal(fresh).list()
    program = (
        "import sys\n"
        "from lakewarden.state.database import Database\n"
        "from lakewarden.state.journal import SqlJournal\n"
        "from lakewarden.state.leases import SqlLeases\n"
        "from lakewarden.state.probe import StateProbe\n"
        "database = Database(sys.argv[1])\n"
        "SqlJournal(database).list(), SqlLeases(database).held(), StateProbe(database)()\n"
        "sys.exit('alembic' in sys.modules)\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program, fresh_url], env=environment, check=True)
