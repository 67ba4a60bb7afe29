"""The table of a view set that gets the columns of a former definition back, without that definition.

Covers `features/viewset/former_columns.py` and `features/version/restoring.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.update import SetCurrentSchemaUpdate, SetSnapshotRefUpdate

from lakewarden.errors import Conflict
from tests.features.viewset.logs import SQL, Logs
from tests.walks.others import Others

pytestmark = pytest.mark.spark
WITHOUT = SQL.replace(", msg", "")
SPAN = {"begin": "2026-01-01", "end": "2026-01-01T02:00", "delta": "1h"}
UNREGISTERED = "has the columns of a former definition"


def _set_schema(logs: Logs, schema: int, snapshot: int | None = None) -> None:
    """What other tools can do through any catalog, and what earlier releases did."""
    table = logs.lake.catalog.load_table("viewsets.entries")
    updates: list[Any] = [SetCurrentSchemaUpdate(schema_id=schema)]
    if snapshot is not None:
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot}
        updates.append(SetSnapshotRefUpdate.model_validate(ref))
    table.catalog.commit_table(table, (), tuple(updates))


def _metadata(logs: Logs) -> str:
    return str(logs.lake.catalog.load_table("viewsets.entries").metadata_location)


@pytest.fixture
def back(logs: Logs) -> Logs:
    """`msg` was dropped from definition and table, and is a column of the table again."""
    logs.insert(0, 61)
    logs.define()
    logs.write(1)
    first = Others(logs.lake, "viewsets.entries").head
    logs.define(WITHOUT)
    Others(logs.lake, "viewsets.entries").compact()
    _set_schema(logs, 0, first)
    return logs


@pytest.mark.parametrize("written", [0, 2])
def test_a_rollback_does_not_restore_columns_without_their_definition(logs: Logs, written: int) -> None:
    logs.insert(0, 61)
    first = logs.define()["schema_hash"]
    logs.write(1)
    before = Others(logs.lake, "viewsets.entries").head
    logs.define(WITHOUT)
    if written:
        logs.write(written)
    version, was = f"viewsets.entries@{before}", _metadata(logs)
    rollback = logs.lake.warden.version.rollback
    with pytest.raises(
        Conflict, match="is the table of a view set, and its columns change with its definition only"
    ) as refused:
        rollback(version, not_ancestor=True, with_schema=True)
    assert "undo: msg dropped" in refused.value.message and "viewset heal" in refused.value.hint
    assert _metadata(logs) == was
    plan = rollback(version, not_ancestor=True)
    assert not any("--with-schema" in warning for warning in plan.plan.warnings)
    plan.apply()
    logs.define()
    logs.viewset.heal("entries").apply()
    logs.write(2)
    assert [row["msg"] for row in logs.rows()] == ["m0", "m61"]
    assert logs.viewset.incompatible() == [] and first not in {row["file_schema_hash"] for row in logs.rows()}


def test_a_rollback_to_a_version_with_the_same_columns(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(1)
    first = Others(logs.lake, "viewsets.entries").head
    logs.write(2)
    logs.lake.warden.version.rollback(f"viewsets.entries@{first}", with_schema=True).apply()
    assert [row["msg"] for row in logs.rows()] == ["m0"]


def test_nothing_is_written_until_it_is_registered_again(back: Logs) -> None:
    was = _metadata(back)
    for verb, options in (
        ("materialize", SPAN),
        ("regenerate", SPAN),
        ("heal", {}),
        ("retire", {"incompatible": True}),
    ):
        with pytest.raises(Conflict, match=UNREGISTERED) as refused:
            getattr(back.viewset, verb)("entries", **options)
        assert "register" in refused.value.hint.lower()
    assert _metadata(back) == was


def test_what_was_planned_before_writes_nothing(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(1)
    plan = logs.viewset.materialize("entries", **SPAN)
    logs.define(WITHOUT)
    _set_schema(logs, 0)
    was = _metadata(logs)
    with pytest.raises(Conflict, match=UNREGISTERED):
        plan.apply()
    assert _metadata(logs) == was


@pytest.mark.parametrize("rewritten", [False, True])
def test_registered_again_its_columns_are_other_ones(back: Logs, rewritten: bool) -> None:
    """Files that were rewritten in between lack the former values, and may be there again after any rollback."""
    first = back.viewset.show("entries").current_schema_hash
    if rewritten:
        view = Others(back.lake, "viewsets.entries")
        view.roll_back(view.snapshots()[-1])
        assert [row["msg"] for row in back.rows()] == [None]
    again = back.define()["schema_hash"]
    assert again != first and back.define() == {"actions": 0, "subjects": 0}
    assert [one.incompatible_schema_hash for one in back.viewset.incompatible()] == [first]
    ways = {action.verb for action in back.viewset.heal("entries").plan.actions}
    assert ways == {"write"} if rewritten else {"rewrite"}
    back.viewset.heal("entries").apply()
    back.write(2)
    assert [(row["msg"], row["file_schema_hash"]) for row in back.rows()] == [("m0", again), ("m61", again)]


def test_registered_again_without_them(back: Logs) -> None:
    """Columns that the last definition had are the same ones still."""
    back.define(WITHOUT)
    assert [action.verb for action in back.viewset.heal("entries").plan.actions] == ["keep"]
    back.viewset.heal("entries").apply()
    back.write(2)
    assert "msg" not in back.rows()[0] and back.viewset.incompatible() == []
    assert [row["level"] for row in back.rows()] == [1, 1]


def test_the_same_definition_with_its_first_columns(back: Logs) -> None:
    """`msg` has a third field id then: it had neither of the former two without a gap."""
    back.define()
    second = back.define(WITHOUT), back.define()["schema_hash"]
    _set_schema(back, 0)
    with pytest.raises(Conflict, match=UNREGISTERED):
        back.viewset.materialize("entries", **SPAN)
    third = back.define()["schema_hash"]
    assert third not in second
    back.viewset.heal("entries").apply()
    assert [(row["msg"], row["file_schema_hash"]) for row in back.rows()] == [("m0", third)]
    assert back.define() == {"actions": 0, "subjects": 0}


@pytest.mark.parametrize("long", [False, True])
def test_a_column_that_was_widened_since(logs: Logs, long: bool) -> None:
    """Files that were rewritten in between have it as a long, which no reader takes for an int."""
    wider = SQL.replace("level", "CAST(level AS BIGINT) AS level")
    logs.insert(0)
    first = logs.define()["schema_hash"]
    logs.write(1)
    second = logs.define(wider)["schema_hash"]
    Others(logs.lake, "viewsets.entries").compact()
    _set_schema(logs, 0)
    again = logs.define(wider if long else SQL)["schema_hash"]
    assert again == second if long else again not in (first, second)
    logs.viewset.heal("entries").apply()
    assert [row["level"] for row in logs.rows()] == [1] and logs.viewset.incompatible() == []
