"""What readers see is the same before and after a compaction, whatever a table has been through (invariant 4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
import yaml

from lakewarden import Warden
from lakewarden.engine.files.live_files import LiveFile
from lakewarden.lifecycle.basics import SPARK_SQL
from tests.cases import in_soak
from tests.entries import listed
from tests.features.compaction.compacted import Compactable, local
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
_KEYS = {
    *("actions", "subjects", "files_rewritten", "files_written", "bytes_before", "bytes_after"),
    *("deleted_rows_dropped", "delete_files_removed", "groups_sent_back"),
}
"""What the result of a compaction tells, by whichever route."""


@pytest.fixture(scope="module")
def wide_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """One lake for all of these tables: it takes a second to make."""
    with SmallLake(tmp_path_factory.mktemp("content") / "lake") as lake:
        lake.warden.ground.spark.sql("CREATE NAMESPACE main.db")
        yield lake


@pytest.fixture
def new(wide_lake: SmallLake, request: pytest.FixtureRequest) -> Any:
    """Makes a table by its columns and properties."""
    made: list[str] = []

    def make(columns: str, partitioned: str = "", version: int = 2, **properties: str) -> Compactable:
        name = f"db.t{abs(hash(request.node.nodeid)) % 10**10}_{len(made)}"
        made.append(name)
        given = {"format-version": str(version), **properties}
        told = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        table = Compactable(wide_lake, name)
        table.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {by} TBLPROPERTIES ({told})")
        return table

    return make


MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
BY_PARTITION = {"write.delete.granularity": "partition"}


@pytest.mark.parametrize("version", [2, *in_soak(1)])
def test_plain_tables(new: Any, version: int) -> None:
    table = new("id BIGINT, city STRING", version=version)
    for start in range(0, 40, 10):
        table.sql(f"INSERT INTO {{t}} SELECT id, CONCAT('city ', id % 7) FROM range({start}, {start + 10})")
    head = int(table.table.current_snapshot().snapshot_id)
    table.sql("ALTER TABLE {t} CREATE TAG before")
    table.sql("ALTER TABLE {t} CREATE BRANCH audit")
    table.sql("DELETE FROM {t}.branch_audit WHERE id < 10")
    audit = table.rows(version="audit")

    result = table.compact_and_look(["id < 5", "city = 'city 3'", "id IS NULL"], ["id", "city"])

    assert len(table.data) == 1 < result["files_rewritten"]
    assert table.rows(version="before") == table.rows()
    assert table.rows(version="audit") == audit
    assert len(audit) == 30
    after = int(table.table.current_snapshot().snapshot_id)
    session = table.lake.warden.ground.spark.session()
    changed = session.read.option("start-snapshot-id", str(head)).option("end-snapshot-id", str(after))
    assert changed.format("iceberg").load(f"main.{table.name}").count() == 0


def test_writers_and_procedures_go_on(new: Any) -> None:
    table = new("id BIGINT, city STRING", "truncate(4, city)", **MERGE_ON_READ, **{"write.merge.mode": "merge-on-read"})
    for start in range(0, 20, 10):
        table.sql(f"INSERT INTO {{t}} SELECT id, CONCAT('city', id % 2) FROM range({start}, {start + 10})")
    table.sql("DELETE FROM {t} WHERE id = 3")
    table.compact_and_look(["id < 5"])

    table.sql("INSERT INTO {t} VALUES (100, 'city1'), (101, 'Bern')")
    table.sql("DELETE FROM {t} WHERE id IN (4, 100)")
    table.sql("UPDATE {t} SET city = 'Thun' WHERE id = 5")
    table.sql("MERGE INTO {t} USING (SELECT 6L AS id) s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET city = 'Biel'")
    expected = {i: f"city{i % 2}" for i in range(20) if i not in (3, 4)} | {5: "Thun", 6: "Biel", 101: "Bern"}
    assert {row.id: row.city for row in table.sql("SELECT * FROM {t}")} == expected
    rows = table.rows()
    table.sql(f"CALL main.system.rewrite_manifests('{table.name}')")
    table.compact_and_look(["city = 'city0'"])
    table.sql(f"CALL main.system.expire_snapshots(table => '{table.name}', older_than => now(), retain_last => 1)")
    assert table.rows() == rows
    assert len(table.table.metadata.snapshots) == 1


@pytest.mark.parametrize("granularity", ["file", *in_soak("partition")])
def test_position_deletes_are_applied_and_go(new: Any, granularity: str) -> None:
    table = new("id BIGINT, day DATE", "day", **MERGE_ON_READ, **{"write.delete.granularity": granularity})
    for start in (0, 100, 200):
        day = "DATE_ADD(DATE'2026-01-01', CAST(id % 2 AS INT))"
        table.sql(f"INSERT INTO {{t}} SELECT id, {day} FROM range({start}, {start + 100})")
    table.sql("DELETE FROM {t} WHERE id % 10 < 4")
    table.sql("DELETE FROM {t} WHERE id BETWEEN 150 AND 250")
    assert len(table.files.deletes) > 0

    result = table.compact_and_look(["id = 105", "day = DATE'2026-01-02'", "id > 140"], ["id", "day"])

    assert not table.files.deletes
    assert result["deleted_rows_dropped"] == 300 - len(table.rows())
    assert set(result) == _KEYS and result["bytes_after"] == sum(file.bytes for file in table.data)
    assert len(table.data) == 2


def test_deletion_vectors_go_through_spark(new: Any) -> None:
    table = new("id BIGINT, city STRING", version=3, **MERGE_ON_READ)
    for start in (0, 100, 200):
        table.sql(f"INSERT INTO {{t}} SELECT id, 'x' FROM range({start}, {start + 100})")
    table.sql("DELETE FROM {t} WHERE id % 10 < 4")
    assert all(delete.is_vector for delete in table.files.deletes) and table.files.deletes

    result = table.compact_and_look(["id = 105"], route=SPARK_SQL)

    assert not table.files.deletes
    assert len(table.data) == 1
    assert set(result) == _KEYS
    assert result["deleted_rows_dropped"] == 120 and result["bytes_after"] == table.data[0].bytes


def test_a_file_that_is_rewritten_alone_keeps_its_sort_order(new: Any) -> None:
    table = new("id BIGINT, part INT", "part", **MERGE_ON_READ)
    table.sql("ALTER TABLE {t} WRITE LOCALLY ORDERED BY id DESC")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.distribution-mode' = 'none')")  # one file each
    table.sql("INSERT INTO {t} SELECT id, 0 FROM range(0, 100, 1, 1)")
    for start in (100, 200):
        table.sql(f"INSERT INTO {{t}} SELECT id, 1 FROM range({start}, {start + 100}, 1, 1)")
    table.sql("DELETE FROM {t} WHERE id % 3 = 0")
    assert {file.sort_order for file in table.data} == {1}

    table.compact_and_look(["id = 7", "id > 190"])

    orders = {file.partition[1]: file.sort_order for file in table.data}
    assert orders == {(0,): 1, (1,): None}
    ids = [row.id for row in table.sql("SELECT id FROM {t} WHERE part = 0")]
    assert ids == sorted(ids, reverse=True)


def test_a_table_that_was_once_of_format_v1(new: Any) -> None:
    """Its old manifests know no sequence numbers."""
    table = new("id BIGINT, s STRING", version=1)
    for start in (0, 10):
        table.sql(f"INSERT INTO {{t}} SELECT id, 'v1' FROM range({start}, {start + 10}, 1, 1)")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')")
    table.sql("INSERT INTO {t} SELECT id, 'v2' FROM range(20, 30, 1, 1)")
    table.sql("DELETE FROM {t} WHERE id IN (1, 11, 21)")

    table.compact_and_look(["id < 5", "s = 'v2'"], ["id"])

    assert len(table.rows()) == 27
    assert not table.files.deletes


def test_all_rows_of_the_table_deleted(new: Any) -> None:
    """Zero new files, and none is left."""
    table = new("id BIGINT, part INT", "part", **MERGE_ON_READ, **BY_PARTITION)
    table.sql("INSERT INTO {t} SELECT id, id % 2 FROM range(0, 20, 1, 1)")
    table.sql("DELETE FROM {t} WHERE id < 19")
    table.sql("DELETE FROM {t} WHERE id + 0 = 19")
    assert len(table.data) == 2 and table.files.deletes

    result = table.compact()

    assert result["files_written"] == 0 and result["deleted_rows_dropped"] == 20
    assert table.data == () and table.rows() == []
    assert not table.files.deletes
    table.look_at_metadata()
    table.sql("INSERT INTO {t} VALUES (1, 1)")
    assert len(table.rows()) == 1


def test_equality_deletes_go_through_spark(new: Any) -> None:
    table = new("id BIGINT, part INT", "part")
    for start in (0, 100):
        table.sql(f"INSERT INTO {{t}} SELECT id, id % 2 FROM range({start}, {start + 100}, 1, 1)")
    table.delete_by_equality([*range(60), 150])
    table.sql("INSERT INTO {t} VALUES (150, 0)")
    rows = table.rows()
    assert len(rows) == 140

    planned = table.plan()
    assert [(a.route, a.because) for a in planned.plan.actions] == [
        (SPARK_SQL, "it has equality deletes, which only Spark can apply")
    ]
    planned.apply()

    assert table.rows() == rows
    assert sum(file.rows for file in table.data) == 140
    assert table.plan().is_empty
    assert not table.lake.warden.compaction.analyze(table.name)[0].needs_compaction


@pytest.mark.parametrize("format", ["avro", *in_soak("orc")])
def test_other_formats_go_through_spark(new: Any, format: str) -> None:
    table = new("id BIGINT, s STRING", **MERGE_ON_READ, **BY_PARTITION, **{"write.format.default": format})
    for start in (0, 100):
        table.sql(f"INSERT INTO {{t}} SELECT id, 'x' FROM range({start}, {start + 100}, 1, 1)")
    table.sql("DELETE FROM {t} WHERE id % 5 < 2")
    assert {delete.format for delete in table.files.deletes} == {format}
    rows = table.rows()
    (analysis,) = table.lake.warden.compaction.analyze(table.name)
    assert analysis.needs_compaction and analysis.problem == ""

    table.compact()

    assert table.rows() == rows
    assert [file.rows for file in table.data] == [120]
    assert table.plan().is_empty


def test_files_of_pyiceberg_and_of_spark_in_one_table(new: Any) -> None:
    table = new("id BIGINT, s STRING, l ARRAY<INT>, at TIMESTAMP", **MERGE_ON_READ)
    table.sql(
        "INSERT INTO {t} VALUES (1, 'spark', array(1, 2), TIMESTAMP'2026-01-01 00:00:00Z'), (2, NULL, NULL, NULL)"
    )
    row = {"id": 3, "s": "pyiceberg", "l": [3, None], "at": datetime(2026, 1, 2, tzinfo=UTC)}
    table.table.append(pa.Table.from_pylist([row], schema=table.table.schema().as_arrow()))
    table.sql("DELETE FROM {t} WHERE id = 2")

    table.compact_and_look(["id = 3", "s = 'spark'", "at > TIMESTAMP'2026-01-01 12:00:00Z'"], ["id", "s", "at"])

    assert len(table.data) == 1


def test_files_without_field_ids_go_through_spark(new: Any, tmp_path: Path) -> None:
    """Taken in from elsewhere, with a name mapping: only Spark tells their columns apart."""
    import pyarrow.parquet as pq

    table = new("id BIGINT, s STRING")
    for number in range(2):
        pq.write_table(
            pa.table({"s": ["from", "elsewhere"], "id": [number, number + 10]}), tmp_path / f"{number}.parquet"
        )
    table.table.add_files([f"file://{tmp_path}/{number}.parquet" for number in range(2)])
    rows = table.rows()
    assert len(rows) == 4

    (action,) = table.plan().plan.actions
    assert action.route == SPARK_SQL and "without field ids" in action.because
    table.compact()

    assert table.rows() == rows
    assert len(table.data) == 1
    assert table.plan().is_empty


EVERY_TYPE = """
    id BIGINT, b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, d9 DECIMAL(9, 2), d18 DECIMAL(18, 4), d38 DECIMAL(38, 10),
    day DATE, t TIMESTAMP_NTZ, tz TIMESTAMP, s STRING, bin BINARY
"""


def test_every_primitive_type_with_its_odd_values(new: Any) -> None:
    table = new(EVERY_TYPE)
    table.sql(
        """INSERT INTO {t} VALUES
        (1, true, -2147483648, -9223372036854775808, CAST('NaN' AS FLOAT), CAST('NaN' AS DOUBLE), -9999999.99,
         -99999999999999.9999, -9999999999999999999999999999.9999999999, DATE'0001-01-01',
         TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP'0001-01-03 00:00:00Z', '', X''),
        (2, false, 2147483647, 9223372036854775807, CAST('-0.0' AS FLOAT), CAST('-0.0' AS DOUBLE), 9999999.99,
         99999999999999.9999, 9999999999999999999999999999.9999999999, DATE'9999-12-31',
         TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', TIMESTAMP'9999-12-30 00:00:00Z',
         'Zürich 🧊 a name that is longer than any bound', X'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF')"""
    )
    table.sql(
        """INSERT INTO {t} VALUES
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (4, true, 0, 0, CAST('Infinity' AS FLOAT), CAST('-Infinity' AS DOUBLE), 0.01, 0.0001, 0.0000000001,
         DATE'1969-12-31', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', TIMESTAMP'1969-12-31 23:59:59.999999Z',
         'a\\u0000b', X'00'),
        (5, false, 1, 1, 0.0, 0.0, 1.10, 1.1000, 1.1000000000, DATE'2026-02-28', TIMESTAMP_NTZ'2026-02-28 12:00:00',
         TIMESTAMP'2026-02-28 12:00:00Z', 'zzzzzzzzzzzzzzzzzzzzzzzzz', X'7F')"""
    )
    filters = [  # not f > 1 or f = 0: there NaN and -0.0 make Iceberg skip files whose rows Spark would have
        "b", "NOT b", "i = -2147483648", "i > 2147483646", "l < -9223372036854775807", "isnan(f)", "f < 0.0001",
        "d < -1e300", "isnan(d)", "d9 = -9999999.99", "d9 > 9999999", "d18 > 99999999999999", "d18 < 0",
        "d38 > 9999999999999999999999999999", "d38 < 0", "d38 = 0.0000000001", "day < DATE'0001-01-02'",
        "day > DATE'9999-12-30'", "t < TIMESTAMP_NTZ'0001-01-02 00:00:00'", "t > TIMESTAMP_NTZ'9999-12-31 23:59:59'",
        "tz = TIMESTAMP'1969-12-31 23:59:59.999999Z'", "s = ''", "s > 'zzzzzzzzzzzzzzzzzzzzzzzz'", "s LIKE 'Zürich%'",
        "s >= 'a\\u0000b' AND s < 'b'", "bin = X'00'", "bin > X'FE'", "bin = X''", "i IS NULL", "s IS NOT NULL",
    ]  # fmt: skip
    columns = ["b", "i", "l", "d9", "d18", "d38", "day", "t", "tz", "s"]

    table.compact_and_look(filters, columns, verify="full")

    (file,) = table.data
    assert dict(listed(file).null_value_counts) == {1: 0} | dict.fromkeys(range(2, 15), 1)
    ours = told_of(file)
    table.sql(f"CALL main.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))")
    (file,) = table.data
    assert "/lw-op-" not in file.path
    assert told_of(file) == ours, "Iceberg's own rewrite tells the same of the same rows"


def told_of(file: LiveFile) -> dict[str, Any]:
    """What a manifest tells of a file's values."""
    entry = listed(file)
    counts = {"rows": entry.record_count, "values": entry.value_counts, "nulls": entry.null_value_counts}
    return counts | {"lower": entry.lower_bounds, "upper": entry.upper_bounds}


def test_types_that_spark_has_not(wide_lake: SmallLake) -> None:
    """Written and read by PyIceberg: time, uuid, fixed; beside them what Spark reads too."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import FixedType, LongType, NestedField, TimestamptzType, TimeType, UUIDType

    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "at", TimeType()),
        NestedField(3, "key", UUIDType()),
        NestedField(4, "four", FixedType(4)),
        NestedField(5, "tz", TimestamptzType()),
    )
    name = "db.not_in_spark"
    wide_lake.catalog.create_table(name, schema, properties={"format-version": "2"})
    table = Compactable(wide_lake, name)
    rows: list[dict[str, Any]] = [
        {"id": 1, "at": time(0, 0), "key": UUID(int=0).bytes, "four": b"\x00\x00\x00\x00"},
        {"id": 2, "at": time(23, 59, 59, 999999), "key": UUID(int=2**128 - 1).bytes, "four": b"\xff\xff\xff\xff"},
        {"id": 3, "at": None, "key": None, "four": None},
        {"id": 4, "at": time(12, 30), "key": UUID(int=7).bytes, "four": b"abcd"},
    ]
    for row in rows:
        row["tz"] = datetime(2026, 1, row["id"], tzinfo=UTC)
        table.table.append(pa.Table.from_pylist([row], schema=schema.as_arrow()))

    def read(where: str = "id > 0") -> list[Any]:
        found = table.table.scan(row_filter=where).to_arrow().to_pylist()
        return sorted(found, key=lambda row: int(row["id"]))

    filters = ["at = '23:59:59.999999'", "at < '00:00:01'"]
    before, answers = read(), [read(where) for where in filters]
    assert [len(answer) for answer in answers] == [1, 1]

    table.compact(verify="full")

    (file,) = table.data
    assert 3 not in listed(file).lower_bounds and 3 not in listed(file).upper_bounds  # in Java's order these are others
    assert listed(file).lower_bounds[4] == b"\x00" * 4
    assert listed(file).upper_bounds[4] == b"\xff" * 4
    assert read() == before
    assert [read(where) for where in filters] == answers
    table.look_at_metadata()


def test_nested_types_with_nulls_at_each_level(new: Any) -> None:
    table = new(
        "id BIGINT, s STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<STRUCT<x: INT, y: ARRAY<STRING>>>,"
        " m MAP<STRING, ARRAY<STRUCT<k: INT, v: MAP<INT, STRING>>>>",
        **MERGE_ON_READ,
    )
    table.sql(
        """INSERT INTO {t} VALUES
        (1, named_struct('a', 1, 'b', named_struct('c', 'x')), array(named_struct('x', 1, 'y', array('p', NULL))),
         map('one', array(named_struct('k', 1, 'v', map(1, 'eins', 2, NULL))))),
        (2, named_struct('a', NULL, 'b', named_struct('c', NULL)), array(named_struct('x', NULL, 'y', NULL), NULL),
         map('empty', array(), 'none', NULL)),
        (3, named_struct('a', 3, 'b', NULL), array(), map()),
        (4, NULL, NULL, NULL)"""
    )
    table.sql(
        """INSERT INTO {t} VALUES
        (5, named_struct('a', 500, 'b', named_struct('c', 'zzz')), array(named_struct('x', 9, 'y', array())),
         map('five', array(NULL, named_struct('k', 5, 'v', map())))),
        (6, NULL, array(), NULL)"""
    )
    table.sql("DELETE FROM {t} WHERE id = 3")

    table.compact_and_look(["s.a > 400", "s.b.c = 'x'", "s.a IS NULL", "s IS NULL", "size(l) = 0"], ["s.a", "s.b.c"])

    assert len(table.rows()) == 5
    (file,) = table.data
    ours = told_of(file)
    table.sql(f"CALL main.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))")
    assert [told_of(file) for file in table.data] == [ours]


def test_columns_that_were_renamed_added_dropped_and_promoted(new: Any) -> None:
    table = new("id INT, f FLOAT, d DECIMAL(5, 2), old STRING, gone STRING, s STRUCT<a: INT, b: STRING>")
    table.sql("INSERT INTO {t} VALUES (1, 1.5, 1.25, 'first', 'old value', named_struct('a', 1, 'b', 'kept'))")
    table.sql("INSERT INTO {t} VALUES (2, 2.5, NULL, 'second', 'other', NULL)")
    for change in (
        "ALTER COLUMN id TYPE BIGINT", "ALTER COLUMN f TYPE DOUBLE", "ALTER COLUMN d TYPE DECIMAL(20, 2)",
        "RENAME COLUMN old TO renamed", "DROP COLUMN gone", "ADD COLUMN gone STRING", "ALTER COLUMN s.a TYPE BIGINT",
        "RENAME COLUMN s.b TO c", "ADD COLUMN s.b STRING", "ADD COLUMN added INT FIRST",
    ):  # fmt: skip
        table.sql(f"ALTER TABLE {{t}} {change}")
    table.sql(
        "INSERT INTO {t} VALUES (7, 9000000000, 1e300, 123456789012345678.25, 'third', "
        "named_struct('a', 9000000000, 'c', 'c', 'b', 'new'), 'new value')"
    )

    table.compact_and_look(
        ["id = 1", "id > 5000000000", "f > 2", "d > 100000", "renamed = 'first'", "gone IS NULL", "s.b IS NULL",
         "s.c = 'kept'", "added = 7", "s.a > 8000000000"],
        ["id", "f", "d", "renamed", "gone", "added"],
    )  # fmt: skip

    assert [row.gone for row in table.sql("SELECT gone FROM {t} ORDER BY id")] == [None, None, "new value"]
    assert len(table.data) == 1


@pytest.mark.parametrize("version", [2, *in_soak(1)])
def test_partitions_of_every_transform_that_evolved(new: Any, version: int) -> None:
    """Files stay under their own spec: else filters on a partition column would miss rows."""
    table = new("id BIGINT, city STRING, day DATE, at TIMESTAMP, x DOUBLE, zip INT", "zip", version=version)
    insert = (
        "INSERT INTO {t} SELECT id, CONCAT('city ', id % 3), DATE_ADD(DATE'2026-01-01', CAST(id AS INT)), "
        "TIMESTAMP'2026-01-01 00:00:00' + MAKE_INTERVAL(0, 0, 0, 0, CAST(id AS INT)), id / 2, CAST(id % 2 AS INT) "
    )
    table.sql(f"{insert} FROM range(0, 40, 1, 1)")
    for start, dropped, added in (
        (40, "zip", ["bucket(4, city)"]),
        (80, "bucket(4, city)", ["truncate(6, city)", "years(at)"]),
        (120, "years(at)", ["months(day)"]),
        (160, "truncate(6, city)", []),
        (200, "months(day)", ["days(at)"]),
        (210, "days(at)", ["hours(at)", "truncate(10, id)"]),
    ):
        table.sql(f"ALTER TABLE {{t}} DROP PARTITION FIELD {dropped}")
        for field in added:
            table.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD {field}")
        for _ in range(2):
            table.sql(f"{insert} FROM range({start}, {start + 10}, 1, 1)")
    columns = table.sql("SELECT COUNT(*) FROM {t} WHERE zip = 1")
    if version == 2:  # in format v1, dropped partition fields stay in every later spec
        table.sql("ALTER TABLE {t} DROP COLUMN zip")
    specs = {file.partition[0] for file in table.data}

    table.compact_and_look(
        ["city = 'city 1'", "day = DATE'2026-01-10'", "day > DATE'2026-05-01'", "at < TIMESTAMP'2026-01-02 00:00:00'",
         "at >= TIMESTAMP'2026-01-09 00:00:00'", "id = 125", "id BETWEEN 38 AND 42", "city LIKE 'city 2%'"],
        ["id", "city", "day", "at"],
    )  # fmt: skip

    assert {file.partition[0] for file in table.data} == specs
    assert len(specs) == 7
    assert len(table.data) == len({file.partition for file in table.data})
    assert columns[0][0] > 0


def test_partitions_that_are_null_nan_or_negative_zero(new: Any) -> None:
    """NaN is unlike itself to Python: its deletes must find it nevertheless."""
    table = new("id BIGINT, x DOUBLE, d DECIMAL(9, 2), s STRING", "x, d, s", **MERGE_ON_READ, **BY_PARTITION)
    for start in (0, 10):
        table.sql(
            "INSERT INTO {t} SELECT id, "
            "CAST(ELT(CAST(id % 5 AS INT) + 1, 'NaN', '0.0', '-0.0', NULL, '1.5') AS DOUBLE), "
            f"IF(id % 5 = 1, -1.25, NULL), IF(id % 5 = 2, '', NULL) FROM range({start}, {start + 10}, 1, 1)"
        )
    table.sql("DELETE FROM {t} WHERE id IN (0, 2, 15)")
    assert len(table.files.deletes) > 0

    table.compact_and_look(["x = 1.5", "isnan(x)", "x IS NULL", "s = ''", "d = -1.25"], ["id"])

    assert len(table.rows()) == 17
    assert not table.files.deletes
    assert len(table.data) == len({file.partition for file in table.data}) == 5


def test_table_properties_shape_the_new_files(new: Any) -> None:
    import pyarrow.parquet as pq

    parquet = "write.parquet."
    table = new(
        "id BIGINT, key STRING, text STRING",
        **{f"{parquet}row-group-size-bytes": "65536", f"{parquet}page-size-bytes": "4096"},
        **{f"{parquet}compression-codec": "gzip", f"{parquet}compression-level": "BEST_SPEED"},
        **{f"{parquet}bloom-filter-enabled.column.key": "true", f"{parquet}bloom-filter-fpp.column.key": "0.05"},
        **{"write.metadata.metrics.default": "counts", "write.metadata.metrics.column.id": "full"},
    )
    for start in (0, 5000):
        rows = f"SELECT id, uuid() AS key, CONCAT(uuid(), uuid()) AS text FROM range({start}, {start + 5000}, 1, 1)"
        table.sql(f"INSERT INTO {{t}} {rows}")
    key = table.sql("SELECT key FROM {t} WHERE id = 77")[0].key

    table.compact_and_look([f"key = '{key}'", "id > 9000"], ["id"])

    (file,) = table.data
    entry, footer = listed(file), pq.read_metadata(local(file.path))
    chunks = [footer.row_group(number).column(place) for number in range(footer.num_row_groups) for place in range(3)]
    assert {chunk.compression for chunk in chunks} == {"GZIP"}
    assert len(entry.split_offsets or ()) == file.row_groups == footer.num_row_groups > 4
    assert set(entry.lower_bounds) == {1}
    assert set(entry.null_value_counts) == {1, 2, 3}
    assert local(file.path).read_bytes()[-4:] == b"PAR1"
    assert {chunk.bloom_filter_offset is not None for chunk in chunks[1::3]} == {True}
    assert {chunk.bloom_filter_offset is not None for chunk in chunks[0::3]} == {False}


@pytest.mark.parametrize("codec", ["zstd", *in_soak("snappy", "uncompressed", "lz4")])
def test_codecs(new: Any, codec: str) -> None:
    import pyarrow.parquet as pq

    table = new("id BIGINT, s STRING")
    for start in (0, 100):
        table.sql(f"INSERT INTO {{t}} SELECT id, CONCAT('row ', id) FROM range({start}, {start + 100}, 1, 1)")
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.parquet.compression-codec' = '{codec}')")
    rows = table.rows()

    table.compact()

    assert table.rows() == rows
    (file,) = table.data
    assert pq.read_metadata(local(file.path)).row_group(0).column(0).compression == codec.upper()


@pytest.mark.soak
def test_a_wide_table_stays_within_the_memory_of_a_task(new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as the whole of a group would take, read at once, is not there to be had."""
    from lakewarden.engine.rewrite.driver import Rewriter

    table = new(", ".join(["id BIGINT", *(f"c{i} STRING" for i in range(200))]))
    columns = ", ".join(f"REPEAT(uuid(), 4) AS c{i}" for i in range(200))
    for start in (0, 8000):
        table.sql(f"INSERT INTO {{t}} SELECT id, {columns} FROM range({start}, {start + 8000}, 1, 1)")
    peaks: list[int] = []
    rewrite = Rewriter.rewrite

    def measured(self: Rewriter, *given: Any) -> Any:
        result = rewrite(self, *given)
        peaks.append(result.peak_bytes)
        return result

    monkeypatch.setattr(Rewriter, "rewrite", measured)
    config = table.lake.folder / "lakewarden.yaml"
    settings = yaml.safe_load(config.read_text())
    settings["tables"] = {table.name: {"compaction": {"task_memory_mb": 400}}}
    config.write_text(yaml.safe_dump(settings))
    with Warden.open(table.lake.folder) as warden:
        warden.compaction.compact(table.name, rewrite_all=True).apply()

    assert len(table.data) == 1
    assert 0 < peaks[0] < 400 << 20 < 16_000 * 200 * 36 * 4


NAN_ROWS = "SELECT id, IF(id % 5 = 0, CAST('NaN' AS DOUBLE), CAST(id AS DOUBLE)) FROM range({start}, {end}, 1, 1)"


def with_nan(new: Any) -> Any:
    """240 rows in two files, 48 of them NaN."""
    table = new("id BIGINT, d DOUBLE", **MERGE_ON_READ)
    for start in (0, 120):
        table.sql(f"INSERT INTO {{t}} {NAN_ROWS.format(start=start, end=start + 120)}")
    return table


def without_nan_counts(table: Any) -> None:
    """Take the counts of NaN out of the manifest of the one compacted file, as if they had never been written."""
    from lakewarden.engine.files.manifests import read_entries, write_entries

    found = table.table
    (manifest,) = [one for one in found.current_snapshot().manifests(found.io) if one.added_files_count]
    (entry,) = read_entries(found.io, manifest)
    assert entry.data_file.nan_value_counts == {2: 48}
    entry.data_file[9] = {}
    assert entry.data_file.nan_value_counts == {} and entry.data_file.lower_bounds
    path = manifest.manifest_path
    write_entries(found.metadata, found.io, f"{path}.new", 0, entry.snapshot_id or 0, added=[entry])
    local(f"{path}.new").replace(local(path))


def test_rows_of_nan_outlive_what_other_engines_do_by_bounds(new: Any) -> None:
    """Without counts of NaN, Spark answers from bounds and deletes whole files by them."""
    table = with_nan(new)
    table.compact_and_look(["isnan(d)", "d < 100"], ["id", "d"])

    (file,) = table.data
    assert dict(listed(file).nan_value_counts) == {2: 48}
    assert str(table.sql("SELECT MAX(d) FROM {t}")[0][0]) == "nan"
    table.sql("DELETE FROM {t} WHERE d < 5000")
    assert table.sql("SELECT COUNT(*), COUNT_IF(isnan(d)) FROM {t}") == [(48, 48)]


def test_files_that_we_wrote_without_counts_of_nan_are_reported_and_rewritten(new: Any) -> None:
    table = with_nan(new)
    table.compact()
    without_nan_counts(table)

    with Warden.open(table.lake.folder) as warden:  # which has not read that manifest before
        (analysis,) = warden.compaction.analyze(table.name)
        (health,) = warden.table.health(table.name)
        assert (analysis.needs_compaction, analysis.files_without_nan_counts) == (True, 1)
        assert "no NaN counts" in analysis.reason
        assert (health.score, health.next) == (50, f"lakewarden compaction compact main.{table.name}")
        assert health.worst == "other engines may skip rows with NaN: 1 of 1 files lack NaN counts"
        warden.compaction.compact(table.name).apply()
        (after,) = warden.compaction.analyze(table.name)
        assert (after.needs_compaction, after.files_without_nan_counts) == (False, 0)
        assert warden.table.health(table.name)[0].score == 100
        assert warden.compaction.compact(table.name).is_empty
    (file,) = table.data
    assert dict(listed(file).nan_value_counts) == {2: 48}
    assert table.sql("SELECT COUNT(*) FROM {t} WHERE isnan(d)") == [(48,)]
