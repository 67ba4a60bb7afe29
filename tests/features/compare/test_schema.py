"""`compare schema`.

Covers `features/compare/layout.py`, `features/compare/versions.py` and `doors/compat/compare_routes.py`.
"""

from __future__ import annotations

import asyncio
import json

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from pyiceberg.types import DoubleType, IntegerType, StringType

from lakewarden.doors.compat.compare_datasets import compare_dataset_data, compare_dataset_schema
from lakewarden.doors.rest.app import create_app
from lakewarden.errors import BadValue, VersionNotFound
from tests.features.compare.typed import Typed, typed
from tests.small_lake import SmallLake

FIRST = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("name", pa.string()),
        ("amount", pa.float32()),
        ("place", pa.struct([("x", pa.int32())])),
        ("code", pa.int32()),
    ]
)


@pytest.fixture
def evolved(lake: SmallLake) -> SmallLake:
    """A table whose schema has changed in every way since the tag v1."""
    lake.catalog.create_namespace("t")
    table = lake.catalog.create_table("t.a", FIRST)
    rows = [{"id": 1, "name": "a", "amount": 1.0, "place": {"x": 1}, "code": 7}]
    table.append(pa.Table.from_pylist(rows, schema=FIRST))
    lake.warden.version.tag("t.a", "v1").apply()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("amount", DoubleType(), doc="in euros")
        update.rename_column("name", "full_name")
        update.add_column("city", StringType())
        update.add_column(("place", "y"), IntegerType())
        update.make_column_optional("id")
        update.move_first("amount")
        update.delete_column("code")
    with table.update_schema() as update:
        update.add_column("code", StringType())
    with table.update_spec() as update:
        update.add_identity("city")
    table = lake.catalog.load_table("t.a")
    table.append(pa.Table.from_pylist([{"id": 2, "city": "Bern"}], schema=table.schema().as_arrow()))
    return lake


def test_every_kind_of_change(evolved: SmallLake) -> None:
    found = evolved.warden.compare.schema("t.a", "v1")
    assert found.added_columns == ["full_name", "place.y", "city"]
    assert found.removed_columns == ["name"]
    assert found.common_columns == ["amount", "id", "place", "place.x", "code"]
    assert found.type_changes == {
        "amount": {"from": "float", "to": "double"},
        "code": {"from": "int", "to": "string"},
    }
    assert found.renamed == {"name": "full_name"}
    assert found.replaced == ["code"]
    assert found.nullability == {"id": {"from": "required", "to": "optional"}}
    assert found.moved == ["amount"]
    assert found.docs == {"amount": {"from": "", "to": "in euros"}}
    assert found.partition_spec == {"from": "unpartitioned", "to": "city"}
    assert found.breaking == ["id may be NULL", "name was renamed to full_name", "code was int and is string"]


def test_backwards_and_with_itself(evolved: SmallLake) -> None:
    back = evolved.warden.compare.schema("t.a", "main", "v1")
    assert back.added_columns == ["name"]
    assert back.partition_spec == {"from": "city", "to": "unpartitioned"}
    assert "amount was double and is float" in back.breaking
    same = evolved.warden.compare.schema("t.a", "v1", "v1")
    assert not (same.breaking or same.added_columns or same.removed_columns or same.moved or same.partition_spec)
    assert "the same" in same.__rich__()


def test_another_table_is_matched_by_name(evolved: SmallLake) -> None:
    evolved.catalog.create_table("t.b", pa.schema([("amount", pa.float32()), ("id", pa.int64())])).append(
        pa.table({"amount": pa.array([1.0], pa.float32()), "id": [1]})
    )
    found = evolved.warden.compare.schema("t.a", "v1", other="t.b")
    assert found.common_columns == ["amount", "id"]
    assert found.type_changes == {"id": {"from": "int", "to": "long"}}
    assert not found.renamed and not found.replaced


def test_rules_at_the_command_line(evolved: SmallLake) -> None:
    def run(*arguments: str) -> Typed:
        return typed(evolved, "compare", "schema", "t.a", "v1", *arguments)

    failed = run("--fail-if", "breaking")
    assert failed.exit_code == 3
    assert "FAILED: breaking" in failed.output
    assert run("--fail-if", "breaking > 3").exit_code == 0
    assert run("--fail-if", "rows_from > 3").exit_code == 2
    assert json.loads(run("--json", "--fail-if", "breaking").stdout)["failed"] == ["breaking"]


def test_errors(evolved: SmallLake) -> None:
    with pytest.raises(VersionNotFound):
        evolved.warden.compare.schema("t.a", "v2")
    with pytest.raises(BadValue):
        evolved.warden.compare.schema("t.a", "v1", fail_if=["breakin > 1"])


def test_addresses_that_scripts_use(evolved: SmallLake) -> None:
    client = TestClient(create_app(evolved.warden))
    address = "/api/v1/compare/datasets/t/a"
    schema = client.get(f"{address}/schema", params={"from_version": "v1"}).json()
    assert schema["renamed"] == {"name": "full_name"}
    assert schema["from_version"] == "v1"
    data = client.get(f"{address}/data", params={"from_version": "v1", "to_version": "main", "sample_size": 1}).json()
    assert (data["rows_added"], data["rows_unchanged"]) == (1, 1)
    assert len(data["samples"]["added"]) == 1
    assert client.get(f"{address}/data", params={"from_version": "v9"}).status_code == 404
    assert client.get(f"{address}/data").status_code == 400
    for route in ("schema", "data"):
        wrong = client.get(f"{address}/{route}", params={"from_version": "v1", "to_verison": "v2"})
        assert wrong.status_code == 400 and "to_verison" in wrong.json()["error"]["message"]
    assert client.get("/api/v1/compare/datasets/t/none/schema", params={"from_version": "v1"}).status_code == 404
    asked = asyncio.run(compare_dataset_schema("t", "a", "v1", warden=evolved.warden))
    assert asked["renamed"] == {"name": "full_name"}
    rows = asyncio.run(compare_dataset_data("t", "a", "v1", warden=evolved.folder))
    assert rows["rows_added"] == 1
