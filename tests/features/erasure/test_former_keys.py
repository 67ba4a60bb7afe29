"""A key column that was dropped and added again is two columns: a request by its name covers both."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import DoubleType, IcebergType, LongType, StringType

from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import BadValue, TracesLeft
from tests.features.erasure.people import ids, person, with_people
from tests.features.erasure.seen import seen
from tests.small_lake import SmallLake


def added_again(lake: SmallLake, kind: IcebergType, *new: dict[str, Any]) -> SmallLake:
    """The first people under a tag; then `email` is dropped and added again, and new people have the new column."""
    lake.warden.version.tag("crm.people", "before").apply()
    with lake.catalog.load_table("crm.people").update_schema() as change:
        change.delete_column("email")
    with lake.catalog.load_table("crm.people").update_schema() as change:
        change.add_column("email", kind)
    table = lake.catalog.load_table("crm.people")
    table.append(pa.Table.from_pylist(list(new), schema=table.schema().as_arrow()))
    return lake


@pytest.fixture
def people(lake: SmallLake) -> SmallLake:
    return with_people(lake)


def test_a_request_covers_the_column_and_the_former_one(people: SmallLake) -> None:
    added_again(people, StringType(), person(7) | {"email": "p4@example.org"}, person(8))
    done = people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    assert "main.crm.people: a former column email of type string is covered too" in " ".join(done.notes)
    assert ids(people, "crm.people@before") == [0, 1, 2, 3, 5]
    assert ids(people) == [0, 1, 2, 3, 5, 8]
    people.warden.erasure.hide("crm.people").apply()
    assert seen(people) == [0, 1, 2, 3, 5, 8]
    assert people.warden.erasure.purge("crm.people").apply().result["requests_closed"] == 1
    assert seen(people, "before") == [0, 1, 2, 3, 5]
    assert seen(people) == [0, 1, 2, 3, 5, 8]

    table = people.catalog.load_table("crm.people")
    back = person(9) | {"email": "p4@example.org"}
    table.append(pa.Table.from_pylist([back], schema=table.schema().as_arrow()))
    with pytest.raises(TracesLeft, match="1 row in 1 new file"):
        people.warden.erasure.watch("crm.people").apply()


def test_of_another_type_each_value_counts_where_it_can_be(people: SmallLake) -> None:
    added_again(people, LongType(), person(7) | {"email": 4}, person(8) | {"email": 5})
    people.warden.erasure.request("crm.people", key="email", value=["p1@example.org", "4"])
    assert ids(people, "crm.people@before") == [0, 2, 3, 4, 5]
    assert ids(people) == [0, 2, 3, 4, 5, 8]
    with pytest.raises(BadValue, match="value 2 is not of type int"):
        people.warden.erasure.request("crm.people", key="user.age", value=["4", "x"])


def test_a_former_column_that_cannot_be_a_key_or_has_another_name_now_is_not_covered(people: SmallLake) -> None:
    with people.catalog.load_table("crm.people").update_schema() as change:
        change.add_column("score", DoubleType())
        change.rename_column("email", "mail")
    with people.catalog.load_table("crm.people").update_schema() as change:
        change.delete_column("score")
        change.add_column("email", StringType())
    with people.catalog.load_table("crm.people").update_schema() as change:
        change.add_column("score", StringType())
    metadata = people.catalog.load_table("crm.people").metadata
    for name in ("email", "score", "mail"):
        (key,) = find_keys(metadata, name, "crm.people")
        assert key.field_id == metadata.schema().find_field(name).field_id
    people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    assert ids(people) == [0, 1, 2, 3, 4, 5]


def test_who_asked_before_is_hidden_where_asked_and_the_new_column_is_named(people: SmallLake) -> None:
    id = people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"]).id
    assert people.warden.erasure.show(id).notes == []
    added_again(people, StringType(), person(7) | {"email": "p4@example.org"})
    assert ids(people) == [0, 1, 2, 3, 5, 7]
    says = f"email is another column now than the one that request {id} covers"
    assert says in people.warden.erasure.show(id).notes[0]
    for planned in (people.warden.erasure.hide("crm.people"), people.warden.erasure.purge("crm.people")):
        assert any(says in warning for warning in planned.plan.warnings)
    again = people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    assert ids(people) == [0, 1, 2, 3, 5]
    assert people.warden.erasure.show(again.id).notes == []
