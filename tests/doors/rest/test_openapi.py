"""OpenAPI tells of every capability: what it takes, what it answers, how it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakewarden
from lakewarden import errors, registry
from lakewarden.doors.rest.app import create_app
from lakewarden.doors.rest.capabilities import path_of
from lakewarden.doors.rest.failures import status_of
from lakewarden.doors.rest.parameters import accepted, works_on_this_machine
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Control, Operation, Question, Request
from tests.small_lake import SmallLake

DECLARED = list(registry.declarations())


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    app = create_app(SmallLake(tmp_path_factory.mktemp("openapi") / "lake").warden)
    described: dict[str, Any] = json.loads(json.dumps(app.openapi(), allow_nan=False))
    return described


def _operation(schema: dict[str, Any], declared: type[Request]) -> dict[str, Any]:
    [(method, operation)] = schema["paths"][path_of(declared)].items()
    assert method == ("get" if issubclass(declared, Question) else "post")
    found: dict[str, Any] = operation
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def test_it_describes_the_application_and_every_noun(schema: dict[str, Any]) -> None:
    assert schema["openapi"].startswith("3.1")
    assert schema["info"]["title"] == "Lakewarden" and schema["info"]["version"] == lakewarden.__version__
    tags = {tag["name"]: tag["description"] for tag in schema["tags"]}
    assert {noun: tags[noun] for noun in registry.nouns()} == {n: registry.describe(n) for n in registry.nouns()}


OTHERS = {
    "/healthz",
    "/readyz",
    "/api/v1/query",
    "/api/v1/compare/datasets/{namespace}/{table}/schema",
    "/api/v1/compare/datasets/{namespace}/{table}/data",
}
"""How the server is, SQL, and addresses that scripts already use."""


def test_it_has_every_capability_and_few_others(schema: dict[str, Any]) -> None:
    assert set(schema["paths"]) == {path_of(declared) for declared in DECLARED} | OTHERS


def test_every_reference_leads_somewhere_and_ids_are_unique(schema: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}
    assert set(_references(schema)) <= known
    ids = [operation["operationId"] for path in schema["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.address().kind)
def test_a_capability_is_described_in_full(declared: type[Request], schema: dict[str, Any]) -> None:
    operation, address = _operation(schema, declared), declared.address()
    assert operation["operationId"] == f"{address.noun}_{address.verb}".replace("-", "_")
    assert operation["tags"] == [address.noun]
    assert operation["summary"] == declared.says().rstrip(".")
    assert declared.says() in operation["description"]
    error = {"$ref": "#/components/schemas/ErrorAnswer"}
    failures = {s: r for s, r in operation["responses"].items() if s != "200"}
    assert all(r["content"]["application/json"]["schema"] == error and r["description"] for r in failures.values())
    if works_on_this_machine(declared):
        assert operation["x-command-line-only"] is True
        assert set(operation["responses"]) == {"403"} and "requestBody" not in operation
        return
    assert set(failures) == {"400", "404", "409", "500", "503", "default"}
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.keys() & {"$ref", "anyOf", "items"}
    taken = _fields(schema, operation)
    extra = {"apply", "files", "wait"} if issubclass(declared, Operation) else set()
    extra |= {"apply"} if issubclass(declared, Control) else set()
    assert set(taken) == set(declared.fields()) | extra
    assert all('"description"' in json.dumps(field) for field in taken.values())
    assert {n for n, f in taken.items() if f["required"]} == {
        n for n, f in declared.fields().items() if f.is_required()
    }


def _fields(schema: dict[str, Any], operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if "parameters" in operation:
        assert all(parameter["in"] == "query" for parameter in operation["parameters"])
        return {parameter["name"]: parameter for parameter in operation["parameters"]}
    if "requestBody" not in operation:
        return {}
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    body = schema["components"]["schemas"][reference.rpartition("/")[2]]
    assert body["additionalProperties"] is False
    return {n: {**f, "required": n in body.get("required", [])} for n, f in body["properties"].items()}


def test_an_operation_answers_with_a_plan_or_a_report(schema: dict[str, Any]) -> None:
    tag = _operation(schema, registry.declaration("version", "tag"))
    answer = tag["responses"]["200"]["content"]["application/json"]["schema"]
    assert [each["$ref"].rpartition("/")[2] for each in answer["anyOf"]] == ["PlanAnswer", "ReportAnswer"]
    body = schema["components"]["schemas"]["VersionTag"]["properties"]
    assert body["apply"]["default"] is False and body["wait"]["default"] == "0s"


class FromFile(Question[int]):
    """Read numbers from a file."""

    name: str
    files: list[Path] | None = None

    def ask(self, lake: object) -> int:
        return 0


class Import(Operation):
    """Take rows from a file."""

    file: Path

    def plan(self, lake: object) -> Plan:
        return Plan("", "")

    def holds(self, action: Action, lake: object) -> bool:
        return True

    def apply(self, action: Action, lake: object) -> Outcome:
        return Outcome()


def test_a_field_that_names_files_is_never_taken() -> None:
    model = accepted(FromFile)
    assert not works_on_this_machine(FromFile)
    model.model_validate({"name": "a"})
    model.model_validate({"name": "a", "files": None})
    with pytest.raises(ValueError, match="files of the server"):
        model.model_validate({"name": "a", "files": ["/etc/hostname"]})


def test_what_cannot_do_without_a_file_is_for_the_command_line() -> None:
    assert works_on_this_machine(Import)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.WrongUse, 400),
        (errors.BadReference, 400),
        (errors.ConfigProblem, 400),
        (errors.NotFound, 404),
        (errors.TableNotFound, 404),
        (errors.Conflict, 409),
        (errors.StalePlan, 409),
        (errors.IllegalTransition, 409),
        (errors.SparkUnavailable, 503),
        (errors.BrokenTable, 500),
        (errors.VerificationFailed, 500),
        (errors.SomeFailed, 500),
        (errors.LakewardenError, 500),
    ],
)
def test_every_kind_of_error_has_its_status(error: type[errors.LakewardenError], status: int) -> None:
    assert status_of(error("x")) == status
