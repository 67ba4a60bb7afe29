"""Runners whose journal and leases are in memory, in SQLite or in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.leases import SqlLeases
from tests.cases import in_soak
from tests.lifecycle.house import House
from tests.new_lake import new_state

if TYPE_CHECKING:
    from tests.services.postgres import Postgres


@pytest.fixture
def house() -> House:
    """Everything in memory."""
    return House()


@pytest.fixture(params=["memory", "postgres", *in_soak("sqlite")])
def any_house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A house on each kind of journal and leases."""
    if request.param == "memory":
        yield House()
        return
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.migrated_database()
    else:
        url = new_state(tmp_path / "state.db")
    with closing(Database(url)) as database:
        yield House(SqlJournal(database), SqlLeases(database))
