"""`erasure show`."""

from __future__ import annotations

import json

import pytest

from lakewarden.errors import NotFound
from tests.features.erasure.people import with_people
from tests.small_lake import SmallLake


def test_all_that_is_known_but_the_values(any_lake: SmallLake) -> None:
    lake = with_people(any_lake)
    asked = lake.warden.erasure.request("crm.people", key="user.email", value=["u1@example.org"], reason="asked")
    shown = lake.warden.erasure.show(asked.id)
    assert (shown.id, shown.state, shown.values, shown.reason) == (asked.id, "open", 1, "asked")
    assert [(key.table, key.column, key.type) for key in shown.keys] == [("main.crm.people", "user.email", "string")]


def test_a_document_without_the_value(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"])
    printed = lake.run("erasure", "show", asked.id, "--json").stdout
    assert json.loads(printed)["id"] == asked.id
    assert "p1@example.org" not in printed


def test_no_such_request(lake: SmallLake) -> None:
    with pytest.raises(NotFound, match="no request for erasure er-1"):
        lake.warden.erasure.show("er-1")
