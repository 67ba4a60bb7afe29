"""What the doctor is told about the control database."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from lakewarden.lifecycle.basics import Check
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.migration import HEAD
from lakewarden.state.probe import StateProbe


def states(checks: list[Check]) -> dict[str, str]:
    return {check.part.removeprefix("control database").strip(): check.state for check in checks}


def test_a_healthy_database(database: Database) -> None:
    SqlJournal(database).list()
    checks = StateProbe(database)()
    assert states(checks) == {"": "ok", "schema": "ok", "clock": "ok"}
    assert {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[database.kind] in checks[0].found
    assert checks[1].found == f"revision {HEAD}"


def test_looking_makes_and_migrates_nothing(fresh_url: str, tmp_path: Path) -> None:
    with closing(Database(fresh_url)) as database:
        assert set(states(StateProbe(database)()).values()) == {"ok"}
        assert list(tmp_path.iterdir()) == []
        with database.peek():
            pass  # makes the file
        checks = StateProbe(database)()
        assert checks[1].found == f"revision none, migrated to {HEAD} on first use"


def test_a_newer_schema(fresh_url: str) -> None:
    with closing(Database(fresh_url)) as database:
        with database.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        checks = StateProbe(database)()
        assert states(checks) == {"": "ok", "schema": "failed"}
        assert "a newer version wrote it" in checks[1].found


@pytest.mark.parametrize("url", ["sqlite:////nowhere/state.db", "postgresql+psycopg://warden:hunter2@127.0.0.1:1/lake"])
def test_what_does_not_answer_has_failed(url: str) -> None:
    (check,) = StateProbe(Database(url))()
    assert check.state == "failed" and check.advice and "hunter2" not in f"{check}"


def test_a_defect_is_a_failed_check_too(tmp_path: Path) -> None:
    def broken_clock() -> datetime:
        raise ZeroDivisionError

    with closing(Database(f"sqlite:///{tmp_path}/state.db", broken_clock)) as database:
        SqlJournal(database).list()
        assert [check.state for check in StateProbe(database)()] == ["failed"]


@pytest.mark.parametrize(("hours", "told"), [(1, "behind"), (-1, "ahead of")])
def test_a_clock_that_is_off(
    migrated_postgres: Database, monkeypatch: pytest.MonkeyPatch, hours: int, told: str
) -> None:
    monkeypatch.setattr(migrated_postgres, "host_clock", lambda: datetime.now(UTC) + timedelta(hours=hours))
    clock = StateProbe(migrated_postgres)()[-1]
    assert clock.state == "warning" and told in clock.found and "NTP" in clock.advice


def test_a_shared_warehouse_wants_postgres(database: Database) -> None:
    last = StateProbe(database, remote_lakes=["eu", "us"])()[-1]
    if database.kind == "sqlite":
        assert last.state == "warning" and "eu, us" in last.found and "PostgreSQL" in last.advice
        assert "several hosts cannot share an SQLite database" in last.found
    else:
        assert last.state == "ok"
