"""Documents are as their schemas say, and hold no number that a JSON reader would round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.doors.rest.client import Client
from tests.small_lake import SmallLake

EXACT = 2**53


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The door of a lake with sales.orders in it: three versions, tags, a request that waits to be hidden."""
    lake = SmallLake(tmp_path_factory.mktemp("documents") / "lake")
    lake.create("sales.orders")
    oldest = lake.warden.version.list("sales.orders")[-1].snapshot_id
    lake.warden.version.tag(f"sales.orders@{oldest}", "v1").apply()
    lake.warden.version.tag("sales.orders", "v2").apply()
    lake.warden.erasure.request("sales.orders", key="id", value=["1"])
    return Client(lake.warden)


QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("table", "list", {}),
    ("table", "show", {"table": "sales.orders"}),
    ("table", "health", {}),
    ("version", "list", {"table": "sales.orders"}),
    ("version", "show", {"version": "sales.orders@v1"}),
    ("version", "read", {"version": "sales.orders"}),
    ("version", "held", {"table": "sales.orders"}),
    ("compaction", "analyze", {"all": "true"}),
    ("operation", "list", {}),
    ("erasure", "list", {}),
]
PLANS: list[tuple[str, str, dict[str, Any]]] = [
    ("version", "tag", {"version": "sales.orders", "name": "v3", "note": "x"}),
    ("version", "branch", {"version": "sales.orders", "name": "b1"}),
    ("version", "untag", {"table": "sales.orders", "name": "v1"}),
    ("version", "rollback", {"version": "sales.orders@v1"}),
    ("retention", "expire", {"table": "sales.orders", "keep_last": 1, "keep_days": 0}),
    ("compaction", "compact", {"table": "sales.orders", "rewrite_all": True}),
    ("erasure", "hide", {"table": "sales.orders", "now": True}),
    ("erasure", "purge", {"table": "sales.orders", "now": True}),
]


@pytest.mark.parametrize(("noun", "verb", "fields"), QUESTIONS, ids=str)
def test_an_answer_is_as_its_schema_says(client: Client, noun: str, verb: str, fields: dict[str, Any]) -> None:
    _look(client, noun, verb, client.get(noun, verb, **fields))


@pytest.mark.parametrize(("noun", "verb", "fields"), PLANS, ids=str)
def test_a_plan_is_as_its_schema_says(client: Client, noun: str, verb: str, fields: dict[str, Any]) -> None:
    plan = _look(client, noun, verb, client.post(noun, verb, **fields))["plan"]
    assert plan["actions"], "a plan without actions tests little"
    kept = client.get("operation", "show", id=plan["id"])
    _look(client, "operation", "show", kept)


def test_snapshot_ids_are_text(client: Client) -> None:
    listed = client.get("version", "list", table="sales.orders").json()
    assert all(isinstance(row["snapshot_id"], str) for row in listed)
    shown = client.get("version", "show", version=f"sales.orders@{listed[0]['snapshot_id']}").json()
    assert shown["snapshot_id"] == listed[0]["snapshot_id"]
    assert shown["parent_snapshot_id"] == listed[1]["snapshot_id"]


def test_no_schema_has_a_snapshot_id_that_is_a_number(client: Client) -> None:
    found = {
        f"{name}.{key}": json.dumps(field)
        for name, schema in client.app.openapi()["components"]["schemas"].items()
        for key, field in schema.get("properties", {}).items()
        if key == "snapshot" or key.endswith("snapshot_id")
    }
    assert len(found) >= 6, "these are too few to be all of them"
    assert {name for name, field in found.items() if "integer" in field} == set()


def _look(client: Client, noun: str, verb: str, response: Any) -> Any:
    assert response.status_code == 200, response.text
    described = client.app.openapi()
    [operation] = described["paths"][f"/api/v1/{noun}/{verb}"].values()
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    document = response.json()
    errors = Draft202012Validator({**schema, "components": described["components"]}).iter_errors(document)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []
    assert [number for number in _numbers(document) if abs(number) > EXACT] == []
    return document


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)
