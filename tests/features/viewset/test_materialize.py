"""`viewset materialize`, on real Spark.

Covers `features/viewset/ranges.py`, `features/viewset/writing.py` and `engine/sql/queries.py`.
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from lakewarden.errors import BadValue, Conflict, SparkUnavailable, StalePlan
from tests.features.viewset.logs import DAY, RANGE, SCHEMA, TIME, Logs

pytestmark = pytest.mark.spark


def test_partitions_are_written_once_and_again_if_their_source_changed(logs: Logs) -> None:
    logs.insert(0, 1, 2, 61, 130)
    current = logs.define()["schema_hash"]
    assert logs.write() == {"actions": 1, "subjects": 1, "partitions": 4, "empty_partitions": 1, "rows": 5}
    assert logs.held() == {(0, current): 3, (1, current): 1, (2, current): 1, (3, current): 0}
    assert logs.viewset.materialize("entries", begin="2026-01-01", end="2026-01-01T04:00", delta="1h").is_empty
    logs.insert(62)
    logs.insert(500)  # elsewhere
    assert logs.write()["partitions"] == 1
    logs.insert(181)
    assert logs.write()["partitions"] == 1
    assert logs.held() == {(0, current): 3, (1, current): 2, (2, current): 1, (3, current): 1}
    assert [row["msg"] for row in logs.rows()] == ["m0", "m1", "m2", "m61", "m62", "m130", "m181"]
    assert not logs.lake.warden.compaction.compact("raw.logs", rewrite_all=True).apply().left
    assert logs.viewset.materialize("entries", begin="2026-01-01", end="2026-01-01T04:00", delta="1h").is_empty


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT level, count(*) AS n, min(time) AS time, '' AS msg FROM raw.logs WHERE {RANGE} GROUP BY level",
        f"WITH own AS (SELECT * FROM raw.logs WHERE {RANGE}) SELECT level, 1 AS n, time, msg FROM own",
    ],
)
def test_sql_that_needs_a_query_for_each_range(logs: Logs, sql: str) -> None:
    logs.insert(0, 1, 61, level=3)
    logs.insert(2, level=4)
    logs.define(sql)
    logs.write(2)
    rows = [(row["level"], row["n"], row["begin_insert_time"].hour) for row in logs.rows()]
    grouped = "count" in sql
    assert sorted(rows) == (
        [(3, 1, 1), (3, 2, 0), (4, 1, 0)] if grouped else [(3, 1, 0), (3, 1, 0), (3, 1, 1), (4, 1, 0)]
    )


def test_instances_are_apart(logs: Logs) -> None:
    logs.insert(0, 1, process="it's")
    logs.insert(2, process="other")
    logs.define(instances="process_id")
    logs.write(1)
    logs.write(1, instance="it's")
    assert list(logs.held().values()) == [3] and list(logs.held("it's").values()) == [2]
    logs.define()
    with pytest.raises(BadValue, match="one instance only"):
        logs.write(1, instance="other")


def test_rows_hidden_by_erasure_are_not_read(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.insert(0, 1, process="gone")
    logs.insert(2, process="here")
    logs.define()
    logs.write(1)
    logs.lake.warden.erasure.request("raw.logs", key="process_id", value=["gone"])
    logs.write(1)
    assert [row["process_id"] for row in logs.rows()] == ["here"]
    sql = f"SELECT time, CAST(msg AS INT) AS msg FROM raw.logs WHERE {RANGE}"
    logs.define(sql)
    caplog.clear()
    for act in (
        lambda: logs.write(1),
        lambda: logs.lake.warden.query("SELECT CAST(msg AS INT) FROM raw.logs", engine="spark"),
    ):
        with pytest.raises(SparkUnavailable, match="CAST_INVALID_INPUT") as raised:
            act()
        assert "m2" not in f"{raised.value} {raised.value.__cause__}"  # nor would a hidden one be
    assert "CAST_INVALID_INPUT" in caplog.text and "m2" not in caplog.text


def test_what_overlaps_is_refused(logs: Logs) -> None:
    logs.insert(0)
    logs.define()
    logs.write(2)
    with pytest.raises(Conflict, match="twice"):
        logs.viewset.materialize("entries", begin="2026-01-01", end="2026-01-02", delta="1d")


def test_rows_of_a_range_come_together_wherever_they_lie(logs: Logs) -> None:
    for minute in range(3):
        logs.insert(minute, 60 + minute, 120 + minute)
    current = logs.define()["schema_hash"]
    logs.write(3)
    assert logs.held() == dict.fromkeys([(0, current), (1, current), (2, current)], 3)
    assert len(logs.viewset.partitions("entries")) == 3
    assert sorted(row["msg"] for row in logs.rows()) == sorted(f"m{60 * h + m}" for h in range(3) for m in range(3))


def test_a_value_that_moved_to_another_column_is_a_change(logs: Logs) -> None:
    table = logs.lake.catalog.load_table("raw.logs")
    rows = [{"inserted_at": DAY, "time": DAY, "process_id": "x", "level": 1, "msg": None}]
    table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    logs.define()
    logs.write(1)
    table.overwrite(pa.Table.from_pylist([{**rows[0], "process_id": None, "msg": "x"}], schema=SCHEMA))
    assert logs.write(1)["partitions"] == 1
    assert [(row["process_id"], row["msg"]) for row in logs.rows()] == [(None, "x")]


def test_insert_times_without_zone_are_in_utc(logs: Logs) -> None:
    schema = pa.schema([("at", pa.timestamp("us")), ("msg", pa.string())])
    logs.lake.catalog.create_table("raw.local", schema)
    times = [(DAY + timedelta(minutes=minute)).replace(tzinfo=None) for minute in (0, 59, 60, 125)]
    rows = pa.table({"at": times, "msg": ["a", "b", "c", "d"]}, schema=schema)
    logs.lake.catalog.load_table("raw.local").append(rows)
    sql = "SELECT at, msg FROM raw.local WHERE at >= {begin} AND at < {end}"
    whole = {"source": "raw.local", "insert_time": "at", "event_time": "at"}
    current = logs.define(sql, **whole)["schema_hash"]
    logs.write(4)
    assert logs.held() == {(0, current): 2, (1, current): 1, (2, current): 1, (3, current): 0}
    first = logs.viewset.partitions("entries")[0]
    assert (first.min_event_time, first.max_event_time) == (DAY, DAY + timedelta(minutes=59))
    grouped = logs.define(f"{sql.replace('msg', 'count(*) AS n')} GROUP BY at", **whole)["schema_hash"]
    logs.write(3)
    assert {key: rows for key, rows in logs.held().items() if key[1] == grouped} == {
        (0, grouped): 2,
        (1, grouped): 1,
        (2, grouped): 1,
    }


def test_columns_that_changed_after_the_last_commit_are_read_as_planned(logs: Logs) -> None:
    logs.insert(0, 1)
    with logs.lake.catalog.load_table("raw.logs").update_schema() as change:
        change.delete_column("msg")
    with logs.lake.catalog.load_table("raw.logs").update_schema() as change:
        change.add_column("msg", StringType())  # another column, without values
    logs.define()
    late = logs.viewset.materialize("entries", begin="2026-01-01", end="2026-01-01T02:00", delta="2h")
    logs.write(1)
    assert [row["msg"] for row in logs.rows()] == [None, None]
    logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02").apply()
    logs.lake.catalog.load_table("raw.logs").append(
        pa.Table.from_pylist([{"inserted_at": DAY, "time": DAY, "msg": "new"}], schema=SCHEMA)
    )
    with pytest.raises(StalePlan, match="columns of raw.logs had changed before planning"):
        late.apply()
    logs.write(1)
    assert [row["msg"] for row in logs.rows()] == [None, "new", None]


def test_a_microsecond_within_a_nested_column_is_a_change(logs: Logs) -> None:
    schema = pa.schema([("inserted_at", TIME), ("times", pa.list_(TIME))])
    table = logs.lake.catalog.create_table("raw.nested", schema)
    for micros in (1, 2):
        row = {"inserted_at": DAY, "times": [DAY + timedelta(microseconds=micros)]}
        table.delete() if micros > 1 else None
        table.append(pa.Table.from_pylist([row], schema=schema))
        logs.define(f"SELECT times FROM raw.nested WHERE {RANGE}", source="raw.nested", event_time=None)
        assert logs.write(1)["partitions"] == 1
