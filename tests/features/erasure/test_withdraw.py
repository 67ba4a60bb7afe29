"""`erasure withdraw`: what was hidden is seen again, and the values are forgotten."""

from __future__ import annotations

import sqlite3

import pytest

from lakewarden.errors import Conflict, NotFound
from tests.features.erasure.people import ids, with_people
from tests.small_lake import SmallLake


def test_rows_are_back_exactly(any_lake: SmallLake) -> None:
    lake = with_people(any_lake)
    before = lake.warden.version.read("crm.people", limit=100)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
    other = lake.warden.erasure.request("crm.people", key="id", value=["4"])
    assert lake.warden.erasure.withdraw(asked.id).state == "withdrawn"
    assert ids(lake) == [0, 1, 2, 3, 5]
    lake.warden.erasure.withdraw(other.id)
    assert lake.warden.version.read("crm.people", limit=100) == before


def test_the_values_leave_the_control_database(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"])
    lake.warden.erasure.withdraw(asked.id)
    with sqlite3.connect(lake.folder / "lakewarden.db") as database:
        rows = database.execute("SELECT packed, length(digests) FROM tombstones").fetchall()
    assert rows == [(None, 32)]
    wal = lake.folder / "lakewarden.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0


def test_only_once(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    lake.warden.erasure.withdraw(asked.id)
    with pytest.raises(Conflict, match="is withdrawn already"):
        lake.warden.erasure.withdraw(asked.id)
    with pytest.raises(NotFound):
        lake.warden.erasure.withdraw("er-1")
