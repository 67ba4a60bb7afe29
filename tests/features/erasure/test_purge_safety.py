"""`erasure purge` where it could take too much or get stuck: columns that grew, staged versions, files of others."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType

from lakewarden.errors import DeletionForbidden, StalePlan
from lakewarden.lifecycle.failpoints import when
from tests.features.erasure.people import SCHEMA, ids, person, with_people
from tests.small_lake import SmallLake


def ask(lake: SmallLake, *people: int) -> str:
    return str(lake.warden.erasure.request("crm.people", key="email", value=[f"p{n}@example.org" for n in people]).id)


def add(lake: SmallLake, *people: int, **facts: str) -> int:
    """Append, and answer with the version that had been there."""
    table = lake.catalog.load_table("crm.people")
    table.append(pa.Table.from_pylist([person(n) for n in people], schema=SCHEMA), snapshot_properties=facts)
    before = table.metadata.snapshots[-2].snapshot_id
    return int(before)


def stage(lake: SmallLake, *people: int) -> int:
    """A version that waits to be published: no ref leads to it."""
    before = add(lake, *people, **{"wap.id": "audit-1"})
    table = lake.catalog.load_table("crm.people")
    staged = table.current_snapshot().snapshot_id
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    return int(staged)


def folder(lake: SmallLake) -> Path:
    return Path(lake.catalog.load_table("crm.people").metadata.location.removeprefix("file://"))


@pytest.mark.parametrize(
    ("kind", "wider", "other"),
    [
        pytest.param(pa.int32(), LongType(), 2**40, id="int"),
        pytest.param(pa.decimal128(4, 2), DecimalType(20, 2), Decimal("123456789.25"), id="decimal"),
    ],
)
def test_a_key_column_that_grew_since_the_request(lake: SmallLake, kind: Any, wider: Any, other: Any) -> None:
    """A value that the type of the request has no room for is somebody else's, and stays."""
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", pa.schema([("id", kind)]))
    table.append(pa.table({"id": pa.array([5, 6], kind)}))
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"]).id
    with table.update_schema() as change:
        change.update_column("id", wider)
    grown = pa.int64() if kind == pa.int32() else pa.decimal128(20, 2)
    table.refresh()
    table.append(pa.table({"id": pa.array([5, other], grown)}))
    result = lake.warden.erasure.purge("crm.people").apply().result
    assert result["rows_dropped_by_tombstones"] == 2
    left = {row["id"] for row in lake.warden.version.read("crm.people", raw=True)}
    assert left == {6, other}
    assert lake.warden.erasure.show(asked).state == "closed"


class TestStaged:
    def test_since_the_plan(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        asked = ask(lake, 1)
        planned = lake.warden.erasure.purge("crm.people")
        staged = stage(lake, 7)
        before = set(folder(lake).rglob("*.parquet"))
        with pytest.raises(StalePlan, match=f"snapshot {staged} was staged and is not published yet") as refused:
            planned.apply()
        assert "Publish it" in refused.value.hint
        assert ids(lake, f"crm.people@{staged}", raw=True) == [0, 1, 2, 3, 4, 5, 7]
        assert ids(lake, raw=True) == [0, 1, 2, 3, 4, 5]
        assert set(folder(lake).rglob("*.parquet")) == before
        assert lake.warden.erasure.show(asked).state == "open"

    def test_while_files_are_written_anew(self, lake: SmallLake) -> None:
        with_people(lake)
        ask(lake, 1)
        staged: list[int] = []
        when("purge.rewritten", lambda: staged.append(stage(lake, 7)))
        with pytest.raises(StalePlan, match="was staged and is not published yet"):
            lake.warden.erasure.purge("crm.people").apply()
        assert ids(lake, f"crm.people@{staged[0]}", raw=True) == [0, 1, 2, 3, 4, 5, 7]

    def test_published_by_moving_the_branch_to_it(self, lake: SmallLake) -> None:
        """Nothing notes that; but it is in the line of the branch, however far that went on."""
        with_people(lake)
        staged = stage(lake, 7)
        lake.catalog.load_table("crm.people").manage_snapshots().set_current_snapshot(staged).commit()
        add(lake, 8)
        asked = ask(lake, 1)
        lake.warden.erasure.purge("crm.people").apply()
        assert ids(lake, raw=True) == [0, 2, 3, 4, 5, 7, 8]
        assert lake.warden.erasure.show(asked).state == "closed"


def test_a_refusal_of_the_plan_tells_no_value_in_a_path(lake: SmallLake) -> None:
    with_people(lake)
    table = lake.catalog.load_table("crm.people")
    with table.update_spec() as change:
        change.add_field("email", IdentityTransform(), "email")
    ask(lake, 1)
    foreign = folder(lake) / "data" / "email=p1%40example.org" / "00000-0.metadata.json"
    foreign.parent.mkdir()
    foreign.write_text(f'{{"table-uuid": "{uuid4()}"}}')
    with pytest.raises(DeletionForbidden, match="metadata of another table lies under its location") as refused:
        lake.warden.erasure.purge("crm.people")
    assert "email=*/" in refused.value.message
    assert "p1%40" not in refused.value.message + refused.value.hint + str(refused.value)
