"""`erasure list`."""

from __future__ import annotations

import json

import pytest

from lakewarden.errors import TableNotFound
from tests.features.erasure.people import configured, with_people
from tests.small_lake import SmallLake


def test_newest_first_with_what_each_is_about(any_lake: SmallLake) -> None:
    lake = with_people(with_people(any_lake), "web.people")
    first = lake.warden.erasure.request("crm.people", key="id", value=["1", "2"], reason="asked", deadline="30d")
    second = lake.warden.erasure.request("web.people", key="email", value=["x"], requester="office")
    rows = lake.warden.erasure.list()
    assert [row.id for row in rows] == [second.id, first.id]
    assert (rows[1].tables, rows[1].values, rows[1].reason, rows[1].state) == (["main.crm.people"], 2, "asked", "open")
    assert rows[0].requester == "office" and rows[0].deadline is None
    assert rows[1].deadline is not None and (rows[1].deadline - rows[1].created_at).days == 30


def test_of_one_table_and_in_some_states(lake: SmallLake) -> None:
    with_people(with_people(lake), "web.people")
    first = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    second = lake.warden.erasure.request("web.people", key="id", value=["1"])
    lake.warden.erasure.withdraw(second.id).apply()
    assert [row.id for row in lake.warden.erasure.list(table="crm.people")] == [first.id]
    assert [row.id for row in lake.warden.erasure.list(state=["withdrawn"])] == [second.id]
    with pytest.raises(TableNotFound):
        lake.warden.erasure.list(table="crm.nobody")


def test_requests_in_their_grace_are_waiting_and_their_rows_are_hidden_all_the_same(lake: SmallLake) -> None:
    with_people(lake)
    configured(lake, tables={"crm.*": {"erasure": {"keys": ["email"], "grace": "7d"}}})
    done = lake.warden.erasure.request("crm.people", value=["p1@example.org"])
    assert done.grace_until is not None
    assert [row.state for row in lake.warden.erasure.list()] == ["waiting"]
    assert len(lake.warden.version.read("crm.people", limit=10)) == 5


def test_overdue_requests_are_found_and_a_check_stops_at_them(lake: SmallLake) -> None:
    with_people(lake)
    late = lake.warden.erasure.request("crm.people", key="id", value=["1"], deadline="1ms")
    lake.warden.erasure.request("crm.people", key="id", value=["2"], deadline="30d")
    lake.warden.erasure.request("crm.people", key="id", value=["3"])
    assert [row.overdue for row in lake.warden.erasure.list()] == [False, False, True]
    assert [row.id for row in lake.warden.erasure.list(overdue=True)] == [late.id]
    assert json.loads(lake.run("erasure", "list", "--overdue", "--check", "--json", check=3).stdout)[0]["overdue"]
    [health] = lake.warden.table.health("crm.people")
    assert (health.worst, health.score) == ("1 erasure request overdue", 40)
    assert health.next == "lakewarden erasure purge main.crm.people"
    lake.warden.erasure.withdraw(late.id).apply()
    assert lake.warden.erasure.list(overdue=True) == []
    lake.run("erasure", "list", "--check")
