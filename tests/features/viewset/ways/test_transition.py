"""How the current schema reads rows of a former one, without a lake.

Covers `features/viewset/history.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from lakewarden.features.shared.columns import promotes
from lakewarden.features.viewset.definition import Definition, columns_with_ids, hash_of
from lakewarden.features.viewset.history import Former, ReadColumns, begun, history_of, recorded
from lakewarden.features.viewset.ways.transition import Transition, transition
from tests.features.viewset.logs import RANGE

_SOURCE = {"inserted_at": 1, "level": 2, "msg": 3}


def _former(
    select: str, columns: dict[str, tuple[int, str]], reads: dict[str, int] | None = None, **more: Any
) -> Former:
    given = {"name": "entries", "source": "raw.logs", "insert_time": "inserted_at", **more}
    definition = Definition.model_validate({**given, "sql": f"SELECT {select} FROM raw.logs WHERE {RANGE}"})
    return Former(
        definition=definition, columns=columns, reads={"raw.logs": ReadColumns(uuid="u", ids=reads or _SOURCE)}
    )


_THEN = _former("level, msg", {"level": (1, "int"), "msg": (2, "string")})


def test_columns_that_are_added_dropped_and_promoted_leave_the_rest_readable() -> None:
    now = _former("CAST(level AS BIGINT) AS level, 1 AS one", {"level": (1, "long"), "one": (9, "int")})
    assert transition([_THEN], now) == Transition("", ("one",), ("msg",), ("level",), {})
    assert transition([_THEN], now).reads_as_it_is


def test_values_of_renamed_and_returned_columns_are_under_another_id() -> None:
    renamed = _former("level, msg AS message", {"level": (1, "int"), "message": (9, "string")})
    assert transition([_THEN], renamed) == Transition("", moved={9: 2})
    again = _former("level, msg", {"level": (1, "int"), "msg": (9, "string")})
    assert transition([_THEN], again).moved == {9: 2}
    twice = _former("level, msg, msg AS message", {"level": (1, "int"), "msg": (2, "string"), "message": (9, "string")})
    assert transition([_THEN], twice).moved == {9: 2}
    assert not transition([_THEN], renamed).reads_as_it_is


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (_former("level, upper(msg) AS msg", _THEN.columns), "computes msg in another way"),
        (_former("level, length(msg) AS msg", {"level": (1, "int"), "msg": (9, "int")}), "computes msg in another way"),
        (_former("level, msg", _THEN.columns, schema_version=2), "schema_version"),
        (_former("level, msg", _THEN.columns, instances="msg"), "instances"),
        (_former("level, msg", _THEN.columns, {**_SOURCE, "msg": 7}), "msg is another column of raw.logs"),
        (_former("DISTINCT level, msg", _THEN.columns), "cannot be compared"),
        (_former("level, msg, explode(tags) AS tag", {**_THEN.columns, "tag": (9, "int")}), "other rows"),
    ],
)
def test_what_the_current_sql_would_compute_differently(now: Former, why: str) -> None:
    found = transition([_THEN], now)
    assert why in found.why_not and not found.reads_as_it_is


def test_a_source_that_was_recreated_and_a_history_that_is_not_known() -> None:
    other = _THEN.model_copy(update={"reads": {"raw.logs": ReadColumns(uuid="other", ids=_SOURCE)}})
    assert "recreated" in transition([_THEN], other).why_not
    assert "not recorded" in transition(None, _THEN).why_not
    shouted = _former("level, upper(msg) AS msg", _THEN.columns)
    assert "another way" in transition([shouted, _THEN], _THEN).why_not  # one of them is enough


def test_the_history_has_every_definition_of_a_hash() -> None:
    shouted = _former("level, upper(msg) AS msg", _THEN.columns)
    properties = begun("a", _THEN)
    properties = recorded(properties, "b", shouted)
    properties = recorded(properties, "a", shouted)
    assert history_of(properties) == {"b": [shouted], "a": [_THEN, shouted]}
    assert recorded(properties, "a", shouted) == properties
    assert recorded({}, "a", _THEN) == {}  # what came before is not known, and never will be
    for number in range(60):
        properties = recorded(properties, f"x{number}", _THEN)
    known = history_of(properties) or {}
    assert sum(1 for formers in known.values() if formers) == 50 and known["a"] == []


def test_a_hash_stands_for_the_field_ids_that_it_was_first_given_to() -> None:
    first = hash_of(_THEN.columns, None, {})
    properties = begun(first, _THEN)
    again = {**_THEN.columns, "msg": (7, "string")}
    other = hash_of(again, None, properties)
    assert hash_of(_THEN.columns, None, properties) == first != other
    properties = recorded(properties, other, _former("level, msg", again))
    assert (hash_of(_THEN.columns, None, properties), hash_of(again, None, properties)) == (first, other)
    for number in range(60):
        properties = recorded(properties, f"x{number}", _THEN)
    assert hash_of({**_THEN.columns, "msg": (9, "string")}, None, properties) not in (first, other)


def test_without_a_history_the_hash_stands_for_the_first_columns_of_the_table() -> None:
    fields = [NestedField(id, name, StringType(), required=False) for id, name in ((1, "level"), (2, "msg"))]
    then, between = Schema(*fields), Schema(fields[0])
    again = Schema(fields[0], fields[1].model_copy(update={"field_id": 3}))
    schemas = [then, between, again]
    first, second, third = (hash_of(columns_with_ids(schema), None, {}, schemas) for schema in schemas)
    assert len({first, second, third}) == 3
    assert hash_of(columns_with_ids(then), None, {}) == first == hash_of(columns_with_ids(again), None, {})


@pytest.mark.parametrize(
    ("old", "new", "is_so"),
    [
        ("int", "long", True),
        ("long", "int", False),
        ("float", "double", True),
        ("decimal(9, 2)", "decimal(12, 2)", True),
        ("decimal(9, 2)", "decimal(12, 3)", False),
        ("decimal(9, 2)", "double", False),
    ],
)
def test_types_that_iceberg_reads_as_others(old: str, new: str, is_so: bool) -> None:
    assert promotes(old, new) is is_so
