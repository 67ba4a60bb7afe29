"""`erasure show`.

Covers `features/erasure/requests/entry.py`.
"""

from __future__ import annotations

import json

import pytest

from lakewarden.errors import NotFound
from tests.features.erasure.people import configured, with_people
from tests.small_lake import SmallLake


def test_all_that_is_known_but_the_values(any_lake: SmallLake) -> None:
    lake = with_people(any_lake)
    asked = lake.warden.erasure.request("crm.people", key="user.email", value=["u1@example.org"], reason="asked")
    shown = lake.warden.erasure.show(asked.id)
    assert (shown.id, shown.state, shown.values, shown.reason) == (asked.id, "open", 1, "asked")
    assert [(key.table, key.column, key.type) for key in shown.keys] == [("main.crm.people", "user.email", "string")]


def test_how_far_it_is_in_each_table(lake: SmallLake) -> None:
    with_people(with_people(lake), "web.people", rows=2)
    configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "email"}})
    asked = lake.warden.erasure.request(subject="customer", value=["p3@example.org", "p4@example.org"]).id
    other = lake.warden.erasure.request("crm.people", key="id", value=["5"]).id
    before = lake.warden.erasure.show(asked)
    assert [(each.table, each.rows_hidden, each.rows_erased, each.proof) for each in before.progress] == [
        ("main.crm.people", 0, 0, ""),
        ("main.web.people", 0, 0, ""),
    ]
    assert (before.operations, before.overdue) == ([], False)
    hidden = lake.warden.erasure.hide("crm.people").apply().id
    assert lake.warden.erasure.show(asked).progress[0].rows_hidden == 2
    assert lake.warden.erasure.show(other).progress[0].rows_hidden == 1
    purged = lake.warden.erasure.purge(all=True).apply().id
    after = lake.warden.erasure.show(asked)
    assert [(each.rows_erased, each.proof) for each in after.progress] == [(2, "clean"), (0, "clean")]
    assert lake.warden.erasure.show(other).progress[0].rows_erased == 1
    assert {(each.did, each.operation) for each in after.operations} == {
        ("hidden", hidden),
        ("purged", purged),
        ("proved", purged),
    }


def test_a_document_without_the_value(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"])
    printed = lake.run("erasure", "show", asked.id, "--json").stdout
    assert json.loads(printed)["id"] == asked.id
    assert "p1@example.org" not in printed


def test_no_such_request(lake: SmallLake) -> None:
    with pytest.raises(NotFound, match="no erasure request er-1"):
        lake.warden.erasure.show("er-1")
