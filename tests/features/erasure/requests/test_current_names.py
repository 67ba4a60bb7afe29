"""Where a table is that a request is about: under its name, under another one, gone, or not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.errors import BrokenTable
from lakewarden.features.erasure.requests.current_names import current_name, find_table, tables_of
from tests.small_lake import SmallLake

PEOPLE = "main.crm.people"


@pytest.fixture
def uuid(lake: SmallLake) -> str:
    lake.create("crm.people", appends=0)
    lake.create("crm.other", appends=0)
    return str(lake.catalog.load_table("crm.people").metadata.table_uuid)


def test_a_table_that_kept_its_name(lake: SmallLake, uuid: str) -> None:
    assert str(find_table(lake.warden.ground, PEOPLE, uuid)) == PEOPLE


def test_a_renamed_table_is_found_though_another_has_its_name(lake: SmallLake, uuid: str) -> None:
    lake.catalog.rename_table("crm.people", "crm.clients")
    lake.create("crm.people", appends=0)
    assert current_name(lake.warden.ground, PEOPLE, uuid) == "main.crm.clients"


def test_a_dropped_table_is_nowhere(lake: SmallLake, uuid: str) -> None:
    lake.catalog.drop_table("crm.people")
    assert find_table(lake.warden.ground, PEOPLE, uuid) is None
    assert current_name(lake.warden.ground, PEOPLE, uuid) == PEOPLE


def test_a_table_that_cannot_be_read_may_be_the_one(lake: SmallLake, uuid: str) -> None:
    lake.catalog.drop_table("crm.people")
    Path(lake.catalog.load_table("crm.other").metadata_location.removeprefix("file://")).write_text("{")
    with pytest.raises(BrokenTable, match=r"crm\.other"):
        find_table(lake.warden.ground, PEOPLE, uuid)
    assert current_name(lake.warden.ground, PEOPLE, uuid) == PEOPLE


def test_each_table_of_a_request_once(lake: SmallLake, uuid: str) -> None:
    asked = lake.warden.erasure.request("crm.people", key="city", value=["Bern", "Thun"])
    assert tables_of(lake.warden.ground.state.erasure.get(asked.id)) == [(PEOPLE, uuid)]
