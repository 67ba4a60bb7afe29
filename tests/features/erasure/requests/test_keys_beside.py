"""A request covers what Lakewarden keeps beside its tables, in every version.

Covers `features/shared/side_tables.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.features.backfill import bad_rows
from lakewarden.features.shared.side_tables import side_tables
from lakewarden.features.viewset import definition
from tests.features.erasure.people import with_people
from tests.small_lake import SmallLake

BAD = pa.schema([("backfill", pa.string()), ("run", pa.int32()), ("checkpoint", pa.string())])
ANNA = "p1@example.org"


def beside(lake: SmallLake, name: str, *checkpoints: str) -> None:
    """A table of bad rows with a tag at its first version."""
    table = lake.catalog.create_table(name, BAD)
    for number, each in enumerate(checkpoints):
        table.append(pa.Table.from_pylist([{"backfill": "b", "run": number, "checkpoint": each}], schema=BAD))
        if number == 0:
            lake.warden.version.tag(name, "first").apply()


def made_of_people(lake: SmallLake) -> None:
    """A table that a backfill wrote from people."""
    stamp = {"position": {"source": {"crm.people": "17"}, "checkpoint": '["zz"]'}}
    lake.catalog.create_table("crm.copy", BAD, properties={"lakewarden.backfill.crm_001": json.dumps(stamp)})


def stored(lake: SmallLake, name: str) -> bytes:
    folder = Path("/" + lake.catalog.load_table(name).location().removeprefix("file:").lstrip("/"))
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def checkpoints(lake: SmallLake, name: str) -> list[str]:
    return sorted(lake.catalog.load_table(name).scan().to_arrow()["checkpoint"].to_pylist())


def test_the_nouns_name_their_tables() -> None:
    assert side_tables() == {bad_rows.SUFFIX: "checkpoint", definition.EMPTY_SUFFIX: definition.INSTANCE}


@pytest.mark.parametrize("name", ["crm.people__bad_rows", "crm.copy__bad_rows"])
def test_tuples_of_a_person_are_purged_from_every_version(lake: SmallLake, name: str) -> None:
    with_people(lake)
    made_of_people(lake)
    beside(lake, name, json.dumps([ANNA, 7]), json.dumps(["p2@example.org", 7]), json.dumps([ANNA, 8]))
    assert ANNA.encode() in stored(lake, name)
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", f"main.{name}"]
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert ANNA.encode() not in stored(lake, name)
    assert checkpoints(lake, name) == [json.dumps(["p2@example.org", 7])]
    assert "first" in lake.refs(name)


def test_tables_beside_others_are_left_alone(lake: SmallLake) -> None:
    with_people(lake)
    lake.catalog.create_table("crm.other", BAD)
    for name in ("crm.other__bad_rows", "crm.people__bad_rows"):
        beside(lake, name, "[2]")
    assert lake.warden.erasure.request("crm.people", key="id", value=["1"]).tables == ["main.crm.people"]
    asked = lake.warden.erasure.request("crm.people", key="id", value=["2"])
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]


def test_letter_case_is_ignored_there_too(lake: SmallLake) -> None:
    with_people(lake)
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA.upper()]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA], ignore_case=True)
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]


def test_a_table_that_only_has_such_a_name_does_not_stand_in_the_way_of_others(lake: SmallLake) -> None:
    with_people(lake)
    made_of_people(lake)
    lake.catalog.create_table("crm.copy__bad_rows", pa.schema([("x", pa.int32())]))
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]
    assert not [note for note in asked.notes if "could not be searched" in note]


def test_a_table_that_cannot_be_read_is_named_and_others_are_covered(lake: SmallLake) -> None:
    with_people(lake)
    made_of_people(lake)
    number = pa.schema([("checkpoint", pa.map_(pa.string(), pa.int32()))])
    lake.catalog.create_table("crm.copy__bad_rows", number)
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]
    assert [note for note in asked.notes if "could not be searched" in note and "crm.copy__bad_rows" in note]
