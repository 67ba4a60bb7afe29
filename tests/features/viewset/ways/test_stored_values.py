"""Partitions of a former schema that were rewritten while the table lacked one of their columns, on real Spark."""

from __future__ import annotations

import pytest

from lakewarden.features.viewset.definition import HISTORY
from lakewarden.warden import LeftOut
from tests.features.viewset.logs import RANGE, SQL, Logs

pytestmark = pytest.mark.spark

WITHOUT = SQL.replace(", msg", "")
SPAN = {"begin": "2026-01-01", "end": "2026-01-01T02:00", "delta": "1h"}


def _compact(logs: Logs, by: str) -> None:
    """Rewrite every file of the view set."""
    before = {row.file_path for row in logs.viewset.partitions("entries")}
    if by == "Spark":
        options = "map('rewrite-all', 'true')"
        _sql(logs, f"CALL main.system.rewrite_data_files(table => 'viewsets.entries', options => {options})")
    else:
        logs.lake.warden.compaction.compact("viewsets.entries", rewrite_all=True).apply()
    assert not before & {row.file_path for row in logs.viewset.partitions("entries")}


def _sql(logs: Logs, statement: str) -> None:
    logs.lake.warden.ground.spark.session().sql(statement).collect()


def _messages(logs: Logs) -> list[str]:
    """As readers of the view set see them, in the lake and through Spark."""
    found = sorted(logs.lake.warden.query("SELECT msg FROM viewsets.entries")["msg"].tolist())
    current = logs.viewset.show("entries").current_schema_hash
    where = f"file_schema_hash = '{current}'"
    rows = logs.lake.warden.ground.spark.session().sql(f"SELECT msg FROM main.viewsets.entries WHERE {where}").collect()
    assert sorted(row[0] for row in rows) == found
    return found


@pytest.mark.parametrize("by", ["Lakewarden", "Spark"])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_rewrite_without_a_column_is_noticed_when_the_column_comes_back(logs: Logs, by: str, is_kept: bool) -> None:
    logs.insert(0, 61)
    first = logs.define()["schema_hash"]
    logs.write(2)
    logs.define(WITHOUT)
    if is_kept:
        assert logs.viewset.heal("entries").apply().result["partitions_kept"] == 2
    _compact(logs, by)
    logs.define()
    with pytest.warns(LeftOut, match="left out 2 partitions of another schema"):
        assert _messages(logs) == []
    assert [one.incompatible_schema_hash for one in logs.viewset.incompatible()] == [first]
    plan = logs.viewset.heal("entries")
    assert "the table did not have all of their columns" in plan.plan.warnings[0]
    plan.apply()
    assert _messages(logs) == ["m0", "m61"]
    assert logs.viewset.incompatible() == [] and logs.viewset.materialize("entries", **SPAN).is_empty


def test_only_partitions_that_were_rewritten_are_regenerated(logs: Logs) -> None:
    """The source may no longer have the rows of the others."""
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    logs.define(WITHOUT)
    where = "begin_insert_time = TIMESTAMP '2026-01-01 00:00:00+00:00'"
    options = f"where => \"{where}\", options => map('rewrite-all', 'true')"
    _sql(logs, f"CALL main.system.rewrite_data_files(table => 'viewsets.entries', {options})")
    logs.lake.catalog.load_table("raw.logs").delete("msg = 'm61'")
    logs.define()
    plan = logs.viewset.heal("entries")
    assert sorted(action.verb for action in plan.plan.actions) == ["rewrite", "write"]
    plan.apply()
    assert _messages(logs) == ["m0", "m61"]


def test_a_column_that_others_drop_and_add_again(logs: Logs) -> None:
    logs.insert(0, 61)
    first = logs.define()["schema_hash"]
    logs.write(2)
    _sql(logs, "ALTER TABLE main.viewsets.entries DROP COLUMN msg")
    _compact(logs, "Spark")
    _sql(logs, "ALTER TABLE main.viewsets.entries ADD COLUMN msg STRING")
    with pytest.warns(LeftOut, match="left out 2 partitions of another schema"):
        assert _messages(logs) == []
    assert [one.incompatible_schema_hash for one in logs.viewset.incompatible()] == [first]
    logs.viewset.heal("entries").apply()
    assert _messages(logs) == ["m0", "m61"]


def test_a_view_set_that_was_registered_before_there_was_a_history(logs: Logs) -> None:
    logs.insert(0, 61)
    first = logs.define()["schema_hash"]
    with logs.lake.catalog.load_table("viewsets.entries").transaction() as change:
        change.remove_properties(HISTORY)
    logs.write(2)
    logs.define(WITHOUT)
    _compact(logs, "Spark")
    back = logs.define()["schema_hash"]
    assert [one.incompatible_schema_hash for one in logs.viewset.incompatible()] == [first] != [back]
    logs.viewset.heal("entries").apply()
    assert _messages(logs) == ["m0", "m61"] and logs.define() == {"actions": 0, "subjects": 0}


def test_values_of_another_type_are_not_moved(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    logs.define(f"SELECT time, process_id, CAST(level AS BIGINT) AS level, msg FROM raw.logs WHERE {RANGE}")
    _compact(logs, "Spark")
    logs.define()
    logs.viewset.heal("entries").apply()
    assert [row["level"] for row in logs.rows()] == [1, 1] and _messages(logs) == ["m0", "m61"]
