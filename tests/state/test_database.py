"""How the control database is opened, what it refuses, and how it says so.

Covers `state/failures.py`.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from lakewarden.errors import LakewardenError, StateUnavailable
from lakewarden.lifecycle.states import Stop
from lakewarden.state import database as module
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from tests.services.postgres import PASSWORD, Postgres
from tests.state.records import an_operation


def use(url: str) -> None:
    database = Database(url)
    try:
        SqlJournal(database).add(an_operation("one"))
    finally:
        database.close()


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    Database(f"sqlite:///{tmp_path}/nowhere/state.db")
    Database("postgresql+psycopg://nobody:secret@127.0.0.1:1/none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://warden:some@hunter2@db.example/lake",  # passwords that should have been quoted
        "postgresql+psycopg://warden:some@hunter2/x@db.example/lake",
        "postgresql+psycopg://warden:some@x?hunter2@db.example/lake",
        "postgresql+psycopg://warden:hunter2@db.example:port/lake",
        "hunter2",
        "",
        "mysql://warden:hunter2@db.example/lake",
        "postgresql+psycopg2://warden:hunter2@db.example/lake",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_wrong_address_is_refused_with_the_right_forms_and_not_shown(url: str) -> None:
    with pytest.raises(StateUnavailable) as refused:
        Database(url)
    told = refused.value
    assert "sqlite:///lakewarden.db" in told.hint and "postgresql+psycopg://" in told.hint
    for shown in (told, told.__cause__, told.__context__):
        assert "hunter2" not in f"{shown} {shown!r}"
    assert "hunter2" not in str(told.document())


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateUnavailable, match=f"there is no folder {tmp_path}/missing") as refused:
        use(f"sqlite:///{tmp_path}/missing/state.db")
    assert "Create the folder" in refused.value.hint
    assert not (tmp_path / "missing").exists()


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    with pytest.raises(StateUnavailable, match="state.db cannot be opened or created"):
        use(f"sqlite:///{tmp_path}/state.db")


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("lakes:\n" * 500)
    with pytest.raises(StateUnavailable, match="state.db is not an SQLite database"):
        use(f"sqlite:///{tmp_path}/state.db")
    assert (tmp_path / "state.db").read_text() == "lakes:\n" * 500


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everywhere, so it becomes somebody else meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can look into, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)
        Path(folder).chmod(0o777)


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_what_must_not_be_written_is_translating(open_folder: Path, file: int, folder: int) -> None:
    state = open_folder / "state.db"
    use(f"sqlite:///{state}")
    state.chmod(file)
    open_folder.chmod(folder)
    with without_rights(), pytest.raises(StateUnavailable, match="cannot be (written|opened or made)") as refused:
        use(f"sqlite:///{state}")
    assert "write access to the file and its folder" in refused.value.hint


def test_a_file_that_cannot_be_made_is_translating(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with without_rights(), pytest.raises(StateUnavailable, match="cannot be opened or created"):
        use(f"sqlite:///{open_folder}/state.db")


def test_a_lock_that_lasts_is_translating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(f"sqlite:///{tmp_path}/state.db")
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{tmp_path}/state.db")
    try:
        assert SqlJournal(database).get("one").id == "one"  # readers do not wait
        with pytest.raises(StateUnavailable, match="is locked by another process"):
            SqlJournal(database).request_stop("one", Stop.CANCEL)
        other.execute("ROLLBACK")
        SqlJournal(database).request_stop("one", Stop.CANCEL)
    finally:
        other.close()
        database.close()


def test_a_lock_that_ends_is_waited_for(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    SqlJournal(database).add(an_operation("one"))
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    SqlJournal(database).request_stop("one", Stop.CANCEL)
    timer.join()
    other.close()
    database.close()


def test_a_server_that_is_not_there(postgres: Postgres) -> None:
    with pytest.raises(StateUnavailable, match="lake on 127.0.0.1:1 does not respond") as refused:
        use("postgresql+psycopg://warden:hunter2@127.0.0.1:1/lake")
    assert "Check that PostgreSQL runs there" in refused.value.hint
    assert "hunter2" not in str(refused.value.document())


@pytest.mark.parametrize("change", [lambda url: url.replace(PASSWORD, "hunter2"), lambda url: url + "_missing"])
def test_wrong_credentials_and_databases_are_translating_without_the_password(
    postgres: Postgres, change: Callable[[str], str]
) -> None:
    url = postgres.new_database()
    with pytest.raises(StateUnavailable, match="does not respond: .*(authentication failed|does not exist)") as refused:
        use(change(url))
    shown = f"{refused.value.document()} {refused.value.__cause__!r} {refused.value.__cause__}"
    assert "hunter2" not in shown and PASSWORD not in shown


def test_a_password_that_a_driver_repeats_is_struck_out() -> None:
    odd = Database("postgresql+psycopg://warden:s%40crt@127.0.0.1/lake?sslpassword=quux")
    with pytest.raises(StateUnavailable) as refused, odd._translating():
        raise DBAPIError("SELECT 1", {}, Exception("no s@crt, no s%40crt, no quux"))
    assert refused.value.message.endswith("no ***, no ***, no ***")


def test_a_plain_postgresql_address_is_understood(postgres: Postgres) -> None:
    use(postgres.new_database().replace("postgresql+psycopg:", "postgresql:"))


def test_reading_cannot_write(database: Database) -> None:
    SqlJournal(database).add(an_operation("one"))
    with pytest.raises(StateUnavailable), database.connect() as connection:
        connection.execute(text("DELETE FROM operations"))
    assert SqlJournal(database).get("one").id == "one"
    SqlJournal(database).request_stop("one", Stop.CANCEL)


def test_reading_is_one_view(database: Database) -> None:
    count = text("SELECT count(*) FROM operations")
    journal = SqlJournal(database)
    with database.connect() as connection:
        assert connection.scalar(count) == 0
        journal.add(an_operation("one"))
        assert connection.scalar(count) == 0
    with database.connect() as connection:
        assert connection.scalar(count) == 1


def test_a_failed_body_writes_nothing(database: Database) -> None:
    with pytest.raises(LakewardenError, match="on purpose"), database.begin() as connection:
        connection.execute(text("INSERT INTO leases VALUES ('k', 'l', 'o', 'h', 1, '2026-01-01T00:00:00+00:00')"))
        raise LakewardenError("on purpose")
    with database.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM leases")) == 0


def test_a_connection_that_the_server_drops_is_translating_and_replaced(postgres: Postgres) -> None:
    with closing(Database(postgres.new_database())) as database:
        with pytest.raises(StateUnavailable, match="does not respond"), database.begin() as connection:
            end_sessions(postgres, database)
            connection.execute(text("SELECT 1"))
        assert SqlJournal(database).list() == []
        end_sessions(postgres, database)
        assert SqlJournal(database).list() == []


def end_sessions(postgres: Postgres, database: Database) -> None:
    """End all sessions of a database, as a server that restarts does."""
    name = database.place.split()[2]
    with psycopg.connect(postgres.conninfo("postgres")) as connection:
        connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])


def test_sqlite_is_set_up_for_several_processes_and_for_erasure(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    with database.begin() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "secure_delete", "foreign_keys", "busy_timeout")
        }
    database.close()
    assert pragmas == {"journal_mode": "wal", "secure_delete": 1, "foreign_keys": 1, "busy_timeout": 15000}


def test_a_deleted_value_leaves_the_sqlite_file(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    SqlJournal(database).add(an_operation("grace-hopper-1906"))
    with database.begin() as connection:
        connection.execute(text("DELETE FROM operations"))
    database.close()
    assert b"grace-hopper" not in (tmp_path / "state.db").read_bytes()
    assert not (tmp_path / "state.db-wal").exists()


def test_the_time_is_the_databases(database: Database) -> None:
    with database.connect() as connection:
        now = database.now(connection)
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=5)
    assert now.utcoffset() == timedelta()
