"""`viewset register`, on real Spark.

Covers `features/viewset/definition.py` and `features/viewset/evolution.py`.
"""

from __future__ import annotations

import pytest

from lakewarden.errors import AlreadyExists, BadValue, ColumnNotFound, SomeFailed
from lakewarden.features.viewset.definition import columns_with_ids
from lakewarden.features.viewset.history import history_of
from tests.features.viewset.logs import DEFINITION, RANGE, SCHEMA, SQL, Logs

pytestmark = pytest.mark.spark


def test_columns_keep_their_ids_where_they_can(logs: Logs) -> None:
    logs.insert(0)
    first = logs.define()["schema_hash"]
    assert logs.define() == {"actions": 0, "subjects": 0}
    before = {f.name: f.field_id for f in logs.lake.catalog.load_table("viewsets.entries").schema().fields}
    second = logs.define(
        f"SELECT time, CAST(level AS BIGINT) AS level, CAST(msg AS BINARY) AS msg, 1 AS extra "
        f"FROM raw.logs WHERE {RANGE}"
    )["schema_hash"]
    after = {f.name: f.field_id for f in logs.lake.catalog.load_table("viewsets.entries").schema().fields}
    assert first != second and after["level"] == before["level"] and after["time"] == before["time"]
    assert after["msg"] not in before.values() and "process_id" not in after and "extra" in after
    assert logs.define(schema_version=2)["schema_hash"] not in (first, second)


def test_what_cannot_be_registered(logs: Logs) -> None:
    logs.insert(0)
    for sql, error, message in (
        ("DROP TABLE raw.logs", BadValue, "not one SELECT"),
        ("SELECT * FROM raw.logs", BadValue, "does not use {begin}"),
        (f"SELECT FROM WHERE {RANGE}", BadValue, "cannot be parsed"),
        (f"SELECT level AS updated FROM raw.logs WHERE {RANGE}", BadValue, "view sets have themselves"),
        (f"SELECT level, level FROM raw.logs WHERE {RANGE}", BadValue, "same name"),
        (f"SELECT level FROM raw.logs WHERE {RANGE}", ColumnNotFound, "no column time"),
    ):
        with pytest.raises(Exception, match=message) as raised:
            logs.define(sql)
        assert isinstance(raised.value, error)
    with pytest.raises(ColumnNotFound, match="inserted"):
        logs.define(insert_time="inserted")
    with pytest.raises(BadValue, match="timestamptz"):
        logs.define(insert_time="level")
    with pytest.raises(AlreadyExists, match="is not a view set"):
        logs.define(target="raw.logs")


def test_a_name_and_its_tables_belong_to_one_view_set(logs: Logs) -> None:
    """Partitions are compared with the schema of the view set with their name."""
    logs.insert(0)
    elsewhere = logs.viewset.register({**DEFINITION, "sql": SQL, "target": "b.y"})
    logs.lake.catalog.create_namespace("viewsets")
    logs.lake.catalog.create_table("viewsets.entries__empty", SCHEMA)
    with pytest.raises(AlreadyExists, match="viewsets.entries__empty exists already, but"):
        logs.define()
    logs.lake.catalog.drop_table("viewsets.entries__empty")
    logs.define()
    logs.write(1)
    with pytest.raises(SomeFailed, match="the view set entries has the table main.viewsets.entries"):
        elsewhere.apply()
    with pytest.raises(AlreadyExists, match="the view set entries has the table main.viewsets.entries"):
        logs.define(SQL.replace("msg", "1 AS one"), target="b.y")
    logs.define(name="others", target="b.y")  # what the first attempt left does not matter
    over = {**DEFINITION, "name": "outer", "source": "viewsets.entries", "insert_time": "time"}
    with pytest.raises(BadValue, match="the table of the view set entries"):
        logs.viewset.register(
            {**over, "sql": "SELECT time FROM viewsets.entries WHERE time >= {begin} AND time < {end}"}
        )


def test_what_a_first_registration_left_undone_is_done(logs: Logs) -> None:
    logs.insert(0)
    logs.define()
    logs.lake.catalog.drop_table("viewsets.entries__empty")
    assert logs.define()["actions"] == 1
    assert logs.write(2)["empty_partitions"] == 1


def test_what_partitions_are_written_with_is_recorded(logs: Logs) -> None:
    logs.insert(0)
    first = logs.define()["schema_hash"]
    second = logs.define(f"SELECT time, CAST(level AS BIGINT) AS level, 1 AS one FROM raw.logs WHERE {RANGE}")
    table = logs.lake.catalog.load_table("viewsets.entries")
    history = history_of(table.metadata.properties)
    assert history is not None and list(history) == [first, second["schema_hash"]]
    (then,), (now,) = history.values()
    before, after = table.schemas()[0], table.schema()
    assert (then.columns, now.columns) == (columns_with_ids(before), columns_with_ids(after))
    assert then.reads["raw.logs"].ids == {"inserted_at": 1, "time": 2, "process_id": 3, "level": 4, "msg": 5}


def test_partitions_count_as_current_again_if_no_column_had_been_dropped(logs: Logs) -> None:
    logs.insert(0)
    first = logs.define()["schema_hash"]
    logs.write(1)
    assert logs.define(SQL.replace("msg", "msg, 1 AS one"))["schema_hash"] != first
    assert logs.define()["schema_hash"] == first
    assert [row["msg"] for row in logs.rows()] == ["m0"] and logs.viewset.incompatible() == []

    changed = logs.viewset.register({**DEFINITION, "sql": SQL.replace("msg", "upper(msg) AS msg")})
    assert "the SQL computes msg in another way now" in changed.plan.warnings[0]


def test_a_column_that_comes_back_is_another_one(logs: Logs) -> None:
    """Its hash is another too: it never stands for values that files may no longer have."""
    logs.insert(0)
    first = logs.define()["schema_hash"]
    logs.write(1)
    without = logs.define(SQL.replace(", msg", ""))["schema_hash"]
    back = logs.define()["schema_hash"]
    assert len({first, without, back}) == 3 and logs.define() == {"actions": 0, "subjects": 0}
    assert [one.incompatible_schema_hash for one in logs.viewset.incompatible()] == [first]
    assert [action.verb for action in logs.viewset.heal("entries").plan.actions] == ["rewrite"]
    logs.viewset.heal("entries").apply()
    assert [(row["msg"], row["file_schema_hash"]) for row in logs.rows()] == [("m0", back)]

    logs.define(SQL.replace("level", "CAST(level AS BIGINT) AS level"))
    logs.write(1)
    narrow = logs.define()["schema_hash"]  # level is stored as a long by now, and cannot be an int under the same id
    assert narrow not in (first, back) and back in {one.incompatible_schema_hash for one in logs.viewset.incompatible()}


def test_instances_of_another_column_are_refused_while_there_are_partitions_of_the_former(logs: Logs) -> None:
    logs.insert(0, 30)
    logs.define(instances="process_id")
    logs.define(instances="msg")
    logs.write(1, instance="m0")
    with pytest.raises(BadValue, match="instances are values of msg, not of process_id"):
        logs.define(instances="process_id")
    logs.define(instances="msg", schema_version=2)
    with logs.lake.catalog.load_table("raw.logs").update_schema() as schema:
        schema.rename_column("msg", "message")
    sql = logs.viewset.show("entries").sql.replace("msg", "message")
    logs.define(sql, instances="message")
