"""Which instances of view sets a request covers, and which it names instead."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakewarden.features.viewset import definition
from tests.features.erasure.people import SCHEMA, person, with_people
from tests.features.erasure.requests.test_keys_beside import AT, DAY, OWN, view_set
from tests.small_lake import SmallLake

NOT_COVERED = "main.viewsets.views is a view set whose instances are, or were, taken from other columns too"


def instances(lake: SmallLake) -> list[str]:
    return sorted(lake.catalog.load_table("viewsets.views").scan().to_arrow()[definition.INSTANCE].to_pylist())


def formerly(lake: SmallLake, **given: str) -> None:
    """The view set had another definition before."""
    table = lake.catalog.load_table("viewsets.views")
    former = json.loads(table.properties[definition.PROPERTY]) | given
    history = {"0123": [{"definition": former, "columns": {}, "reads": {}}]}
    with table.transaction() as change:
        change.set_properties({definition.HISTORY: json.dumps(history)})


@pytest.mark.parametrize(
    ("value", "options"), [("global", {}), ("Global", {"ignore_case": True}), (" global ", {"trim": True})]
)
def test_the_instance_with_the_rows_of_all_is_left_alone(lake: SmallLake, value: str, options: dict[str, bool]) -> None:
    with_people(lake)
    view_set(lake, "p2@example.org", "global")
    own = dict.fromkeys((name for name, _ in OWN), "global") | {name: DAY for name, kind in OWN if kind == AT}
    lake.catalog.load_table("viewsets.views__empty").append(pa.Table.from_pylist([own], schema=pa.schema(OWN)))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[value, "p2@example.org"], **options)
    assert asked.tables == ["main.crm.people", "main.viewsets.views"]
    assert [note for note in asked.notes if "the instance that has all rows, which is left alone" in note]
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert instances(lake) == ["global"]
    assert lake.catalog.load_table("viewsets.views__empty").scan().to_arrow().num_rows == 1


@pytest.mark.parametrize(("now", "former"), [("number", "id"), ("id", "number")])
def test_instances_of_several_columns_are_named_and_not_covered(lake: SmallLake, now: str, former: str) -> None:
    with_people(lake)
    view_set(lake, "1", "2", instances=now)
    formerly(lake, instances=former)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    assert asked.tables == ["main.crm.people"]
    assert [note for note in asked.notes if note.startswith(NOT_COVERED)]
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert instances(lake) == ["1", "2"]
    certificate = lake.warden.erasure.certificate(asked.id)
    assert [note for note in certificate.not_covered if note.startswith(NOT_COVERED)]


def test_instances_of_other_columns_are_not_named(lake: SmallLake) -> None:
    with_people(lake)
    view_set(lake, "1", instances="number")
    formerly(lake, instances="email")
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    assert not [note for note in asked.notes if "view set" in note]


@pytest.mark.parametrize("has_former", [False, True])
def test_instances_of_a_column_that_was_renamed_are_covered(lake: SmallLake, has_former: bool) -> None:
    with_people(lake)
    view_set(lake, "1", "2", instances="person_id" if has_former else "id")
    if has_former:
        formerly(lake, instances="id")
    with lake.catalog.load_table("crm.people").update_schema() as schema:
        schema.rename_column("id", "person_id")
    asked = lake.warden.erasure.request("crm.people", key="person_id", value=["1"])
    assert asked.tables == ["main.crm.people", "main.viewsets.views"]
    lake.warden.erasure.purge("crm.people").apply()
    assert instances(lake) == ["2"]


def test_a_spelling_that_is_only_in_the_source_does_not_keep_a_request_open(lake: SmallLake) -> None:
    with_people(lake)
    row = person(1) | {"id": 77, "email": "P1@Example.org"}
    lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([row], schema=SCHEMA))
    view_set(lake, "p2@example.org", "p1@EXAMPLE.org")
    asked = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"], ignore_case=True)
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert instances(lake) == ["p2@example.org"]
