"""Every capability over REST: the same documents as on the command line, and errors as documents.

Covers `doors/rest/health.py`.
"""

from __future__ import annotations

import json
import logging
import math
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from lakewarden import Warden, registry
from lakewarden.doors.cli.main import run
from lakewarden.doors.logs import RedactingFormatter
from lakewarden.doors.rest.capabilities import path_of
from lakewarden.doors.rest.shapes import PlanAnswer, ReportAnswer
from lakewarden.features.version.tag import Tag
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Question, Request, Setup
from lakewarden.lifecycle.states import State
from tests.doors.rest.client import API, Client, error_of
from tests.small_lake import SmallLake

DECLARED = list(registry.declarations())


def _name(declared: type[Request]) -> str:
    return declared.address().kind


@pytest.mark.parametrize("declared", DECLARED, ids=_name)
def test_every_capability_has_a_route_by_the_right_method_only(declared: type[Request], shared: Client) -> None:
    address = declared.address()
    path = f"{API}/{address.noun}/{address.verb}"
    assert path_of(declared) == path
    right, wrong = ("GET", "POST") if issubclass(declared, Question) else ("POST", "GET")
    assert shared.http.request(right, path, params={"no-such-field": "1"}).status_code in (200, 400, 403)
    refused = shared.http.request(wrong, path)
    assert refused.status_code == 405
    assert error_of(refused)["hint"] == f"Supported: {right}."


@pytest.mark.parametrize(
    ("noun", "verb", "fields", "arguments"),
    [
        ("table", "list", {}, []),
        ("table", "list", {"namespace": "sales"}, ["--namespace", "sales"]),
        ("table", "show", {"table": "sales.orders"}, ["sales.orders"]),
        ("version", "list", {"table": "sales.orders", "limit": 2}, ["sales.orders", "--limit", "2"]),
        ("version", "show", {"version": "sales.orders"}, ["sales.orders"]),
        (
            "version",
            "read",
            {"version": "sales.orders", "where": "id > 1", "columns": ["id", "city"]},
            ["sales.orders", "--where", "id > 1", "--columns", "id,city"],
        ),
        ("operation", "list", {"state": ["planned", "done"]}, ["--state", "planned", "--state", "done"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_question_answers_with_the_document_of_the_command_line(
    noun: str,
    verb: str,
    fields: dict[str, Any],
    arguments: list[str],
    shared: Client,
    shared_lake: SmallLake,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--config", str(shared_lake.folder), "--json", noun, verb, *arguments]) == 0
    printed = json.loads(capsys.readouterr().out)
    response = shared.get(noun, verb, **fields)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == printed
    assert printed


def test_an_operation_only_plans_unless_it_is_told_to_apply(client: Client, lake: SmallLake) -> None:
    response = client.post("version", "tag", version="sales.orders", name="v1", keep="90d")
    assert response.status_code == 200
    assert "v1" not in lake.refs()
    plan = response.json()["plan"]
    assert plan == lake.warden.version.tag("sales.orders", "v1", keep="90d").plan.document()
    PlanAnswer.model_validate(response.json())

    applied = client.post("operation", "apply", id=plan["id"])
    assert applied.status_code == 200
    assert lake.refs()["v1"] == lake.head()
    report = applied.json()
    ReportAnswer.model_validate(report)
    assert report["operation"]["kind"] == "version.tag" and report["operation"]["state"] == "done"
    assert report["result"]["tags"] == 1 and report["findings"] == []
    shown = client.get("operation", "show", id=report["operation"]["id"]).json()
    assert shown["plan_id"] == plan["id"] and shown["state"] == "done"


def test_every_file_of_a_plan_is_shown_when_asked(client: Client, lake: SmallLake) -> None:
    counted = client.post("version", "tag", version="sales.orders", name="v1").json()
    assert counted["plan"]["actions"][0]["files"] == {"count": 0, "bytes": 0, "digest": ""}
    listed = client.post("version", "tag", version="sales.orders", name="v1", files=True).json()
    assert listed["plan"]["actions"][0]["files"] == {"count": 0, "bytes": 0, "digest": "", "items": []}
    assert listed["plan"]["id"] == counted["plan"]["id"]

    files = FileList.of(PlannedFile(f"s3://lake/{n}.parquet", n, "data") for n in range(3))
    plan = Plan("retention.expire", "t", (Action("expire", "t", "t", "expire", {}, files=files),))
    PlanAnswer.model_validate({"plan": plan.document()})
    PlanAnswer.model_validate({"plan": plan.document(files=True)})
    lake.warden.ground.journal.add(Record.planned("op-1", plan, "{}", "ada", datetime(2026, 1, 1, tzinfo=UTC)))
    assert client.get("operation", "show", id="op-1").json()["files"] == []
    shown = client.get("operation", "show", id="op-1", files=True).json()["files"]
    assert [file["path"] for file in shown] == [f"s3://lake/{n}.parquet" for n in range(3)]


def test_what_a_budget_left_undone_is_in_the_report() -> None:
    report = Report("op-1", "policy.run", State.DONE, {"left": 1, "stopped": "budget"}, ("t: compact",))
    ReportAnswer.model_validate(report.document())
    assert report.document()["left"] == ["t: compact"]


def test_what_is_stored_is_the_declaration_and_nothing_of_the_door(client: Client, lake: SmallLake) -> None:
    plan = client.post("version", "tag", version="sales.orders", name="v1", wait="5s").json()["plan"]
    record = lake.warden.ground.journal.get(plan["id"])
    assert Tag.model_validate_json(record.request) == Tag(version="sales.orders", name="v1")


def test_apply_does_it_at_once_and_answers_with_the_report(client: Client, lake: SmallLake) -> None:
    response = client.post("version", "tag", version="sales.orders", name="v1", apply=True, wait="1s")
    ReportAnswer.model_validate(response.json())
    assert lake.refs()["v1"] == lake.head()
    again = client.post("version", "tag", version="sales.orders", name="v1", apply=True)
    assert again.status_code == 409 and error_of(again)["code"] == "already-exists"


def test_an_empty_plan_is_not_kept_and_applies_to_nothing(client: Client, lake: SmallLake) -> None:
    here = f"sales.orders@{lake.head()}"
    planned = client.post("version", "rollback", version=here)
    assert planned.status_code == 200 and planned.json()["plan"]["actions"] == []
    applied = client.post("version", "rollback", version=here, apply=True)
    nothing = {"id": None, "kind": "version.rollback", "state": "done"}
    assert applied.json() == {"operation": nothing, "result": {"actions": 0, "subjects": 0}, "findings": []}
    ReportAnswer.model_validate(applied.json())
    assert client.get("operation", "list").json() == []


def test_a_destructive_operation_round_trip(client: Client, lake: SmallLake) -> None:
    first, was = lake.warden.version.list("sales.orders")[-1].snapshot_id, lake.head()
    assert client.post("version", "rollback", version=f"sales.orders@{first}").status_code == 200
    assert lake.head() == was
    assert client.post("version", "rollback", version=f"sales.orders@{first}", apply=True).status_code == 200
    assert lake.head() == first and lake.refs()[f"before-rollback-{was}"] == was


def test_a_plan_gone_stale_is_a_conflict(client: Client, lake: SmallLake) -> None:
    plan = client.post("version", "tag", version="sales.orders", name="v1").json()["plan"]
    first = lake.warden.version.list("sales.orders")[-1].snapshot_id
    with lake.catalog.load_table("sales.orders").manage_snapshots() as outside:
        outside.create_tag(first, "v1")
    response = client.post("operation", "apply", id=plan["id"])
    assert response.status_code == 409
    error = error_of(response)
    assert error["code"] == "stale" and str(first) in str(error["message"])
    assert client.get("operation", "show", id=error["operation"]).json()["state"] == "failed"


def test_a_table_that_is_held_is_a_conflict_after_the_wait(client: Client, lake: SmallLake) -> None:
    ground = lake.warden.ground
    held = lake.warden.version.tag("sales.orders", "v1").plan.actions[0].lease
    lease = ground.leases.acquire(held, "table", "op-other", "elsewhere", ground.settings.leases.timeout)
    started = ground.clock()
    response = client.post("version", "tag", version="sales.orders", name="v1", apply=True, wait="300ms")
    assert response.status_code == 409 and error_of(response)["code"] == "lease-held"
    assert (ground.clock() - started).total_seconds() >= 0.3
    ground.leases.release(lease)
    [failed] = client.get("operation", "list", state="failed").json()
    resumed = client.post("operation", "resume", id=failed["id"])
    assert resumed.status_code == 200 and [row["state"] for row in resumed.json()] == ["done"]
    assert lake.refs()["v1"] == lake.head()


def test_controls_are_posted_with_their_fields(client: Client, lake: SmallLake) -> None:
    plan = client.post("version", "tag", version="sales.orders", name="v1").json()["plan"]
    cancelled = client.post("operation", "cancel", id=plan["id"])
    assert cancelled.status_code == 200 and cancelled.json()["state"] == "cancelled"
    assert cancelled.json() == client.get("operation", "list").json()[0]
    refused = client.post("operation", "apply", id=plan["id"])
    assert refused.status_code == 409 and error_of(refused)["code"] == "illegal-transition"
    assert client.http.post(f"{API}/operation/resume").json() == []  # all its fields may be left out, so may the body


@pytest.mark.parametrize(
    ("noun", "verb", "fields", "status", "code"),
    [
        ("version", "list", {"table": "sales.ordres"}, 404, "table-not-found"),
        ("version", "list", {"table": "nowhere.at.all"}, 404, "table-not-found"),
        ("version", "show", {"version": "sales.orders@v9"}, 404, "version-not-found"),
        ("operation", "show", {"id": "op-none"}, 404, "operation-not-found"),
        ("table", "list", {"lake": "atlantis"}, 404, "lake-not-found"),
        ("version", "read", {"version": "sales.orders", "columns": "town"}, 404, "column-not-found"),
        ("version", "read", {"version": "sales.orders", "where": "id >"}, 400, "bad-filter"),
        ("version", "list", {"table": "orders"}, 400, "bad-reference"),
        ("version", "list", {}, 400, "bad-value"),
        ("version", "list", {"table": "sales.orders", "limit": "many"}, 400, "bad-value"),
        ("version", "list", {"table": "sales.orders", "limit": "0"}, 400, "bad-value"),
        ("version", "list", {"table": "sales.orders", "limt": "1"}, 400, "bad-value"),
        ("operation", "list", {"state": "asleep"}, 400, "bad-value"),
        ("operation", "list", {"limit": 10**30}, 400, "bad-value"),
        ("table", "list", {"namespace": "sales."}, 404, "not-found"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(
    noun: str, verb: str, fields: dict[str, Any], status: int, code: str, shared: Client
) -> None:
    response = shared.get(noun, verb, **fields)
    assert (response.status_code, error_of(response)["code"]) == (status, code)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "request: JSON decode error"),
        (b"[]", "request: "),
        (b"", "request: Field required"),
        (b'{"version": "sales.orders"}', "name: Field required"),
        (b'{"version": 1, "name": "v2"}', "version: "),
        (b'{"version": "sales.orders", "name": " "}', "name: a name cannot be empty"),
        (b'{"version": "sales.orders", "name": "v2", "keep": "3 eons"}', "keep: '3 eons' is not a duration"),
        (b'{"version": "sales.orders", "name": "v2", "wait": "long"}', "wait: 'long' is not a duration"),
        (b'{"version": "sales.orders", "name": "v2", "apply": "perhaps"}', "apply: "),
        (b'{"version": "sales.orders", "name": "v2", "rest_apply": true}', "rest_apply: Extra inputs"),
        (b'{"version": "sales.orders", "name": "\\ud800"}', "request: it contains text that is not valid Unicode"),
        (
            b'{"version": "sales.orders", "name": "v2", "\\ud800": 1}',
            "request: it contains text that is not valid Unicode",
        ),
    ],
)
def test_a_wrong_body_is_told_what_is_wrong(body: bytes, told: str, shared: Client, shared_lake: SmallLake) -> None:
    response = shared.http.post(f"{API}/version/tag", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    error = error_of(response)
    assert error["code"] == "bad-value" and str(error["message"]).startswith(told)
    assert set(shared_lake.refs()) == {"main", "v1"}


def test_a_body_must_be_said_to_be_json(shared: Client, shared_lake: SmallLake) -> None:
    """A page of another site can make a browser post a form or plain text, but not JSON."""
    body = b'{"version": "sales.orders", "name": "v2", "apply": true}'
    for kind in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
        response = shared.http.post(f"{API}/version/tag", content=body, headers=kind)
        assert response.status_code == 400
        assert "application/json" in str(error_of(response)["hint"])
    assert set(shared_lake.refs()) == {"main", "v1"}


def test_no_such_path_is_an_error_document_too(shared: Client) -> None:
    response = shared.http.get(f"{API}/version/lst")
    assert response.status_code == 404
    assert error_of(response)["hint"] == f"Did you mean {API}/version/list?"
    assert shared.http.get("/").status_code == 404


def test_what_sets_up_the_server_is_refused(shared: Client, tmp_path: Path) -> None:
    local = [d for d in DECLARED if issubclass(d, Setup)]
    assert local
    for declared in local:
        response = shared.http.post(path_of(declared), json={"directory": str(tmp_path / "new")})
        assert response.status_code == 403
        error = error_of(response)
        assert error["code"] == "not-over-rest" and f"lakewarden {declared.address()}" in str(error["hint"])
    assert not (tmp_path / "new").exists()


def test_no_file_is_written_on_the_server(shared: Client, tmp_path: Path) -> None:
    for out in (str(tmp_path / "rows.csv"), "rows.parquet", ""):
        response = shared.get("version", "read", version="sales.orders", out=out)
        assert response.status_code == 400
        assert str(error_of(response)["message"]).startswith("out: REST does not")
    assert not (tmp_path / "rows.csv").exists()


def test_rows_of_every_kind_are_valid_json(client: Client, lake: SmallLake) -> None:
    kinds = [DoubleType(), BinaryType(), DecimalType(9, 2), DateType(), TimestamptzType(), UUIDType(), StringType()]
    fields = [NestedField(i + 1, name, kind) for i, (name, kind) in enumerate(zip("abcdefg", kinds, strict=True))]
    floats = NestedField(8, "h", ListType(9, DoubleType(), element_required=False))
    lake.catalog.create_table("sales.kinds", Schema(*fields, floats))
    table = lake.catalog.load_table("sales.kinds")
    one = uuid.UUID("00000000-0000-0000-0000-0000000000ff")
    row = {
        "a": math.nan,
        "b": b"\xff\x00",
        "c": Decimal("-1.50"),
        "d": date(2024, 2, 29),
        "e": datetime(2024, 2, 29, 12, 0, 0, 123456, UTC),
        "f": one.bytes,
        "g": 'Zürich "\u2028\x00',
        "h": [math.inf, -math.inf, 0.1, None],
    }
    table.append(pa.Table.from_pylist([row, dict.fromkeys(row)], schema=table.schema().as_arrow()))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    answer = client.get("version", "read", version="sales.kinds").content
    got, empty = json.loads(answer, parse_constant=refuse)["rows"]
    assert got == {
        "a": "NaN",
        "b": "ff00",
        "c": "-1.50",
        "d": "2024-02-29",
        "e": "2024-02-29T12:00:00.123456Z",
        "f": str(one),
        "g": 'Zürich "\u2028\x00',
        "h": ["Infinity", "-Infinity", 0.1, None],
    }
    assert empty == dict.fromkeys(row)


def test_rows_are_cut_and_the_answer_says_so(client: Client, lake: SmallLake) -> None:
    lake.append(rows=30)
    answer = client.get("version", "read", version="sales.orders").json()
    assert (len(answer["rows"]), answer["rows_read"], answer["rows_total"], answer["cut"]) == (20, 20, 36, True)
    answer = client.get("version", "read", version="sales.orders", limit=50).json()
    assert (len(answer["rows"]), answer["rows_read"], answer["rows_total"], answer["cut"]) == (36, 36, 36, False)


def test_a_defect_is_an_incident_without_its_inside(
    client: Client, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(question: object) -> None:
        raise RuntimeError("the in" + "side")

    monkeypatch.setattr(lake.warden, "ask", fail)
    with caplog.at_level(logging.ERROR):
        response = client.get("table", "list")
    assert response.status_code == 500
    error = error_of(response)
    assert "the inside" not in response.text and "Traceback" not in response.text
    logged = [r for r in caplog.records if str(error["incident"]) in r.getMessage()]
    assert len(logged) == 1 and "RuntimeError" in logged[0].getMessage() and "in fail" in logged[0].getMessage()
    assert "the inside" not in RedactingFormatter().format(logged[0])  # it may quote rows


def test_questions_are_answered_side_by_side(shared: Client) -> None:
    with ThreadPoolExecutor(8) as clients:
        asked = list(clients.map(lambda _: shared.get("version", "list", table="sales.orders").json(), range(24)))
    assert all(answer == asked[0] for answer in asked) and len(asked[0]) == 3


def test_alive_and_ready(shared: Client) -> None:
    assert shared.http.get("/healthz").json() == {"alive": True}
    ready = shared.http.get("/readyz")
    assert ready.status_code == 200 and ready.json()["ready"]
    assert [check["part"] for check in ready.json()["checks"]] == ["main: catalog", "control database"]


def test_not_ready_while_a_catalog_does_not_answer(lake: SmallLake) -> None:
    catalog = lake.folder / "lake" / "catalog.db"
    aside = catalog.rename(catalog.with_suffix(".aside"))
    client = Client(Warden.open(lake.folder))
    assert client.http.get("/healthz").status_code == 200
    response = client.http.get("/readyz")
    assert response.status_code == 503 and not response.json()["ready"]
    failed = [check for check in response.json()["checks"] if check["state"] == "failed"]
    assert [check["part"] for check in failed] == ["main: catalog"] and failed[0]["advice"]
    asked = client.get("table", "show", table="sales.orders")
    assert asked.status_code == 503 and error_of(asked)["code"] == "catalog-unavailable"
    aside.rename(catalog)
    assert client.http.get("/readyz").status_code == 200


def test_not_ready_while_the_control_database_does_not_open(tmp_path: Path) -> None:
    client = Client(SmallLake(tmp_path / "lake", state="sqlite:///nowhere/lakewarden.db").warden)
    response = client.http.get("/readyz")
    assert response.status_code == 503
    failed = [check for check in response.json()["checks"] if check["state"] == "failed"]
    assert [check["part"] for check in failed] == ["control database"] and "nowhere" in failed[0]["found"]
    assert client.get("operation", "list").status_code == 503


def test_not_ready_where_looking_fails_unexpectedly(
    client: Client, lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("the in" + "side")

    monkeypatch.setattr(lake.warden.ground.journal, "list", fail)
    response = client.http.get("/readyz")
    assert response.status_code == 503 and "the inside" not in response.text
