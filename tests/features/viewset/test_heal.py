"""`viewset heal`, on real Spark.

Covers `features/viewset/ways/options.py`, `features/viewset/ways/keeping.py`, `features/viewset/ways/rewriting.py`,
`features/viewset/ways/regenerating.py` and `features/viewset/retiring.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.errors import SomeFailed, StalePlan
from lakewarden.lifecycle import failpoints
from tests.cases import in_soak
from tests.features.viewset.logs import RANGE, SQL, Logs
from tests.readers.spec import faults
from tests.walks.others import Others

pytestmark = pytest.mark.spark

WIDER = f"SELECT time, process_id, CAST(level AS BIGINT) AS level, msg, 1 AS one FROM raw.logs WHERE {RANGE}"
ADDED = SQL.replace("msg", "msg, 1 AS one")
RENAMED = SQL.replace("msg", "msg AS text")
SHOUTED = SQL.replace("msg", "upper(msg) AS msg, 1 AS one")


def _messages(logs: Logs, column: str = "msg") -> list[tuple[str, str | None]]:
    """The stored hash and one column of each row."""
    return sorted((row["file_schema_hash"], row[column]) for row in logs.rows())


def test_kept_partitions_count_as_current_and_no_file_changes(logs: Logs) -> None:
    logs.insert(0, 61, 62)
    first = logs.define()["schema_hash"]
    logs.write(3)
    before = logs.lake.catalog.load_table("viewsets.entries").metadata.snapshots
    second = logs.define(WIDER)["schema_hash"]
    retirement = logs.viewset.retire("entries", incompatible=True)
    plan = logs.viewset.heal("entries")
    assert [action.verb for action in plan.plan.actions] == ["keep"]
    assert plan.plan.id == logs.viewset.heal("entries").plan.id
    assert "keep (metadata only)" in plan.plan.warnings[0] and "regenerate (reads" in plan.plan.warnings[0]
    assert plan.apply().result["partitions_kept"] == 3
    with pytest.raises(StalePlan, match="which former ones count as current"):
        retirement.apply()
    assert logs.viewset.incompatible() == [] and logs.viewset.heal("entries").is_empty
    assert logs.held() == {(0, second): 1, (1, second): 2, (2, second): 0}
    assert logs.lake.catalog.load_table("viewsets.entries").metadata.snapshots == before
    assert [(row["file_schema_hash"], row["level"], row["one"]) for row in logs.rows()] == [(first, 1, None)] * 3
    assert logs.lake.warden.query("SELECT count(*) AS n FROM viewsets.entries")["n"].tolist() == [3]

    span = {"begin": "2026-01-01", "end": "2026-01-01T03:00", "delta": "1h"}
    assert logs.viewset.materialize("entries", **span).is_empty  # the source has not changed
    logs.insert(63)
    assert logs.write(3)["partitions"] == 1
    assert logs.held() == {(0, second): 1, (1, second): 3, (2, second): 0} and len(logs.rows()) == 4
    assert logs.viewset.retire("entries", begin="2026-01-01T02:00", end="2026-01-01T03:00").apply().result[
        "partitions_retired"
    ] == 1  # it is without rows  # fmt: skip

    third = logs.define(SHOUTED)["schema_hash"]
    assert {one.incompatible_schema_hash for one in logs.viewset.incompatible()} == {first, second}
    assert third not in (first, second)


def test_values_of_renamed_columns_are_rewritten(logs: Logs) -> None:
    logs.insert(0, 61, 62)
    logs.define()
    logs.write(3)
    second = logs.define(RENAMED)["schema_hash"]
    plan = logs.viewset.heal("entries")
    assert [action.verb for action in plan.plan.actions] == ["rewrite"]
    result = plan.apply().result
    assert (result["partitions_rewritten"], result["rows"]) == (3, 3)
    assert logs.viewset.incompatible() == []
    assert logs.held() == {(0, second): 1, (1, second): 2, (2, second): 0}
    assert _messages(logs, "text") == [(second, "m0"), (second, "m61"), (second, "m62")]
    assert faults(logs.lake.catalog.load_table("viewsets.entries").metadata_location) == []
    session = logs.lake.warden.ground.spark.session()
    found = session.sql(f"SELECT text FROM main.viewsets.entries WHERE file_schema_hash = '{second}'").collect()
    assert sorted(row[0] for row in found) == ["m0", "m61", "m62"]


def test_other_values_are_regenerated_and_what_the_source_lost_is_retired(logs: Logs) -> None:
    logs.insert(0, 61, 121)
    logs.define()
    logs.write(4)
    logs.lake.catalog.load_table("raw.logs").delete("msg = 'm61'")
    second = logs.define(SHOUTED)["schema_hash"]
    plan = logs.viewset.heal("entries")
    assert "keep is not possible (the SQL computes msg in another way now)" in plan.plan.warnings[0]
    assert [action.verb for action in plan.plan.actions] == ["retire", "write"]
    result = plan.apply().result
    assert (result["partitions"], result["partitions_retired"]) == (3, 1)
    assert logs.held() == {(0, second): 1, (2, second): 1, (3, second): 0}
    assert _messages(logs) == [(second, "M0"), (second, "M121")]


def test_rows_that_were_hidden_are_not_rewritten(logs: Logs) -> None:
    """A withdrawal must be able to restore them."""
    logs.insert(0, 1)
    logs.define()
    logs.write(1)
    erasure = logs.lake.warden.erasure
    erasure.request("viewsets.entries", key="msg", value=["m0"])
    erasure.hide("viewsets.entries").apply()
    logs.define(RENAMED)
    plan = logs.viewset.heal("entries").plan
    assert [action.verb for action in plan.actions] == ["write"]
    assert "rewrite is not possible (rows of its files were deleted or hidden)" in plan.warnings[0]
    assert "come back" in plan.warnings[1]


def test_files_whose_rows_only_a_dropped_column_covers_are_not_rewritten(logs: Logs) -> None:
    """Nothing would hide such a row afterwards, and nothing could erase it."""
    logs.insert(0, 1)
    logs.define()
    logs.write(1)
    logs.lake.warden.erasure.request("viewsets.entries", key="msg", value=["m0"])
    logs.define(RENAMED)
    plan = logs.viewset.heal("entries").plan
    assert [action.verb for action in plan.actions] == ["write"]
    assert (
        "rewrite is not possible (an open erasure request covers rows by a column that was dropped"
        in (plan.warnings[0])
    )


def test_an_instance_that_the_view_set_no_longer_has(logs: Logs) -> None:
    logs.insert(0)
    logs.define(instances="process_id")
    logs.write(1, instance="p1")
    logs.define(SHOUTED)
    plan = logs.viewset.heal("entries")
    assert [action.verb for action in plan.plan.actions] == ["retire"]
    assert "the source has no rows for 1 partition any more: retire" in plan.plan.warnings[1]


def test_time_that_the_current_schema_has_already(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    second = logs.define(ADDED)["schema_hash"]
    logs.write(1)
    plan = logs.viewset.heal("entries")
    assert [action.verb for action in plan.plan.actions] == ["retire", "keep"]
    retirement = logs.viewset.retire("entries", incompatible=True)
    logs.define()  # what was incompatible is current again
    for stale in (plan, retirement):
        with pytest.raises(StalePlan, match="the schema of the view set entries changed"):
            stale.apply()
    third = logs.define(ADDED)["schema_hash"]  # its column came back as another one
    assert third != second
    logs.viewset.heal("entries").apply()
    assert logs.held() == {(0, third): 1, (1, third): 1} and len(logs.rows()) == 2


def test_no_row_is_there_twice_in_a_version_from_before_its_schema_was_kept(logs: Logs) -> None:
    """An hour has partitions of both schemas then: the kept one does not count as current there."""

    def messages(ref: str = "") -> list[str]:
        return sorted(row["msg"] for row in logs.lake.warden.version.read(f"viewsets.entries{ref}"))

    logs.insert(0, 61)
    first = logs.define()["schema_hash"]
    logs.write(2)
    second = logs.define(ADDED)["schema_hash"]
    logs.write(1)
    before = logs.lake.head("viewsets.entries")
    logs.viewset.heal("entries").apply()
    assert messages() == ["m0", "m61"] and messages(f"@{before}") == ["m0"]
    (left_out,) = logs.lake.warden.queried(f'SELECT * FROM "viewsets.entries@{before}"').notes
    assert "2 partitions of another schema" in left_out

    Others(logs.lake, "viewsets.entries").roll_back(before)
    assert messages() == ["m0"] and logs.held() == {(0, first): 1, (1, first): 1, (0, second): 1}
    assert [one.partition_count for one in logs.viewset.incompatible()] == [2]
    logs.viewset.heal("entries").apply()
    assert messages() == ["m0", "m61"] and logs.held() == {(0, second): 1, (1, second): 1}


def test_only_some_ways_and_partitions_that_overlap(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(4)
    second = logs.define(WIDER)["schema_hash"]
    assert [a.verb for a in logs.viewset.heal("entries", only=["rewrite"]).plan.actions] == ["rewrite"]
    logs.viewset.heal("entries", only=["regenerate"]).apply()
    assert [(row["file_schema_hash"], row["one"]) for row in logs.rows()] == [(second, 1)] * 2
    logs.define(SHOUTED)
    logs.viewset.materialize("entries", begin="2026-01-01T00:30", end="2026-01-01T01:30", delta="1h").apply()
    refused = logs.viewset.heal("entries").plan.refused
    assert len(refused) == 1 and "2 incompatible partitions with a part of their time in others" in refused[0].message


def test_what_is_refused_does_not_stop_the_others(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.viewset.materialize("entries", begin="2026-01-01T00:30", end="2026-01-01T01:30", delta="1h").apply()
    logs.define(ADDED)
    logs.write(1)
    third = logs.define(SQL.replace("msg", "upper(msg) AS msg, 2 AS two"))["schema_hash"]
    with pytest.raises(SomeFailed, match="1 incompatible partition with a part of their time"):
        logs.viewset.heal("entries").apply()
    assert logs.held()[0, third] == 1 and len(logs.viewset.incompatible()) == 1


@pytest.mark.parametrize(
    ("sql", "step"),
    [
        (RENAMED, "viewset.rewritten"),
        *in_soak((WIDER, "commit.landed"), (RENAMED, "commit.landed"), (RENAMED, "rewrite.checked")),
        *in_soak((SHOUTED, "viewset.staged"), (SHOUTED, "commit.landed"), (SHOUTED, "viewset.retired")),
    ],
)
def test_killed_at_every_step_there_is_no_duplicate_and_no_hole(logs: Logs, sql: str, step: str) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    logs.insert(0, 61)
    logs.define()
    logs.write(4)
    second = logs.define(sql)["schema_hash"]
    logs.viewset.materialize("entries", begin="2026-01-01T03:00", end="2026-01-01T04:00", delta="1h").apply()
    failpoints.when(step, kill)
    plan: Any = logs.viewset.heal("entries")
    with pytest.raises(Killed):
        plan.apply()
    (operation,) = [one for one in logs.lake.warden.operation.list() if one.state in ("running", "paused")]
    logs.lake.warden.operation.resume(operation.id)
    assert logs.held() == {(0, second): 1, (1, second): 1, (2, second): 0, (3, second): 0}
    assert len(logs.rows()) == 2 and logs.viewset.incompatible() == []


def test_a_field_inside_a_column_that_others_dropped_and_added_again(logs: Logs) -> None:
    """Files that were rewritten in between lack its values."""
    sql = f"SELECT time, level, named_struct('x', msg, 'y', level) AS body FROM raw.logs WHERE {RANGE}"
    logs.insert(0, 61)
    first = logs.define(sql)["schema_hash"]
    logs.write(1)
    view = Others(logs.lake, "viewsets.entries")
    view.sql("ALTER TABLE {t} DROP COLUMN body.x")
    view.compact()
    view.sql("ALTER TABLE {t} ADD COLUMN body.x STRING FIRST")
    second = logs.viewset.show("entries").current_schema_hash
    assert second != first
    assert [one.incompatible_schema_hash for one in logs.viewset.incompatible()] == [first]
    plan = logs.viewset.heal("entries")
    assert "keep is not possible (fields of body were dropped and added again)" in plan.plan.warnings[0]
    plan.apply()
    logs.write(2)
    assert [(row["file_schema_hash"], row["body"]["x"]) for row in logs.rows()] == [(second, "m0"), (second, "m61")]

    third = logs.define(sql.replace("level,", "level, 1 AS one,", 1))["schema_hash"]
    assert logs.define(sql)["schema_hash"] == second
    again = logs.define(sql.replace("AS body", "AS text"))["schema_hash"]
    back = logs.define(sql)["schema_hash"]  # a column with another id, whose inner ids follow it
    assert len({first, second, third, again, back}) == 5 and logs.define(sql) == {"actions": 0, "subjects": 0}
    assert logs.viewset.show("entries").current_schema_hash == back
    plan = logs.viewset.heal("entries")
    assert "body is nested" in plan.plan.warnings[0] and {action.verb for action in plan.plan.actions} == {"write"}
