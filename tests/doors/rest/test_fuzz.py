"""Whatever is asked, the server has an answer: never a defect, and always JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from lakewarden import registry
from lakewarden.doors.rest.capabilities import path_of
from lakewarden.doors.rest.parameters import works_on_this_machine
from lakewarden.lifecycle.request import Completes, Question
from lakewarden.lifecycle.states import State
from tests.doors.rest.client import Client
from tests.examples import examples
from tests.small_lake import SmallLake

FEWER = examples(200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
CALLABLE = [declared for declared in registry.declarations() if not works_on_this_machine(declared)]
QUESTIONS = [d for d in CALLABLE if issubclass(d, Question) and d.address().kind != "lake.doctor"]  # it starts Spark
POSTED = [d for d in CALLABLE if not issubclass(d, Question)]

TELLING = ["1", "-1", "1e3", "9" * 25, "true", "null", "NaN", "90d", "planned", "v1", "", "\x00", "\ufffd", "🦆"]
WORDS = ["sales", "orders", "main", "id", "city", " > ", " AND ", " IN ", "2024-01-01T00:00:00", "0001-01-01", "+14:00"]
PIECES = st.lists(st.sampled_from([*"..@`` ()'=<*-,%0", *WORDS]), max_size=8).map("".join)
TEXT = st.sampled_from(TELLING) | PIECES | st.text(max_size=12)
VERSION = st.sampled_from(["", "", "", "@main", "@v1", "@1", "@2024-01-01", "@9999-12-31T23:59:59-14:00"]) | TEXT.map(
    "@".__add__
)
TABLE = st.sampled_from(["sales.orders", "main.sales.orders", "`sales`.orders", "sales.*", "sales.order"])
VALUE = TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    VALUE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=4
)


FILTER = st.sampled_from(["id > 1", "id IN (1, 2)", "city LIKE 'c%'", "city IS NULL", "NOT id = 9e9", "id = 'x'"])
KNOWN: dict[str, st.SearchStrategy[str]] = {
    "where": FILTER,
    "columns": st.sampled_from(["id", "city", "id,city", ""]),
    "namespace": st.sampled_from(["sales", "sales.eu", "nowhere"]),
    "lake": st.just("main"),
    "state": st.sampled_from([str(state) for state in State]),
    "keep": st.sampled_from(["90d", "1m", "999999999w"]),
}


def _mostly(value: st.SearchStrategy[Any], else_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 4).flatmap(lambda chance: value if chance else else_)


def _fitting(name: str, field: FieldInfo) -> st.SearchStrategy[Any]:
    """Mostly texts that a field may well take, else any."""
    if any(isinstance(mark, Completes) and mark.what == "tables" for mark in field.metadata):
        return _mostly(st.builds(str.__add__, TABLE, VERSION), TEXT)
    if "bool" in str(field.annotation):
        return _mostly(st.sampled_from(["true", "false"]), TEXT)
    if "int" in str(field.annotation):
        return _mostly(st.integers(0, 9).map(str), TEXT)
    return _mostly(KNOWN.get(name, TEXT), TEXT)


def _some(fields: dict[str, Any], values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """The required fields and some of the others, with now and then a stranger among them."""
    required = {name: values[name] for name, field in fields.items() if field.is_required()}
    optional = {name: value for name, value in values.items() if name not in required}
    known = st.fixed_dictionaries(required, optional=optional)
    return _mostly(known, st.builds(dict.__or__, known, st.dictionaries(TEXT, TEXT, max_size=1)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    lake = SmallLake(tmp_path_factory.mktemp("fuzz") / "lake")
    lake.create("sales.orders")
    return Client(lake.warden)


@given(data=st.data())
@FEWER
def test_no_query_finds_a_defect(data: st.DataObject, client: Client) -> None:
    declared = data.draw(st.sampled_from(QUESTIONS))
    fields = declared.model_fields
    values = {name: _fitting(name, field) for name, field in fields.items() if not _is_file(field)}
    _answers(client.http.get(path_of(declared), params=data.draw(_some(fields, values))))


@given(data=st.data())
@FEWER
def test_no_body_finds_a_defect(data: st.DataObject, client: Client) -> None:
    """Without saying to apply: plans are made and kept, and nothing changes."""
    declared = data.draw(st.sampled_from(POSTED))
    fields = declared.model_fields
    values = {name: _mostly(_fitting(name, field), JSON) for name, field in fields.items()}
    body = data.draw(_mostly(_some(fields, values), JSON))
    _answers(client.http.post(path_of(declared), json=body))


def _is_file(field: FieldInfo) -> bool:
    return "Path" in str(field.annotation)  # refused in any case, and nothing beside it would be tried


def _answers(response: Any) -> None:
    assert response.status_code in (200, 400, 404, 409), response.text
    response.json()
    assert (list(response.json()) == ["error"]) == (response.status_code != 200)
