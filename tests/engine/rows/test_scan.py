"""Reads of partitions whose value is NaN or NULL: deleted rows stay deleted, and every filter finds its rows."""

from __future__ import annotations

import pytest

from tests.small_lake import SmallLake

FILTERS = {
    "": {0, 2, 4},
    "score IS NAN": {0},
    "score IS NOT NAN": {2},
    "score IS NULL": {4},
    "score >= 1 OR id = 4": {2, 4},
    "NOT score <= 1": {0, 2},
    "score != 1.5 OR id = 9": {0},
    "score NOT IN (1.5, 3.5)": {0},
    "score IN (1.5)": {2},
}


@pytest.mark.spark
@pytest.mark.parametrize("format", [2, 3])
def test_deleted_rows_of_a_nan_partition_stay_deleted(lake: SmallLake, format: int) -> None:
    sql, rows = lake.warden.ground.spark.sql, lake.warden.ground.rows
    sql("CREATE NAMESPACE main.web")
    sql(
        "CREATE TABLE main.web.scores (id BIGINT, score DOUBLE) USING iceberg PARTITIONED BY (score) TBLPROPERTIES "
        f"('format-version' = '{format}', 'write.delete.mode' = 'merge-on-read', "
        "'write.delete.granularity' = 'partition')"
    )
    values = ["'NaN'", "'NaN'", "1.5", "1.5", "NULL", "NULL"]
    for some in (range(6), range(6, 12)):  # two files in each partition, so that deletes name several
        listed = ", ".join(f"({id}, CAST({values[id % 6]} AS DOUBLE))" for id in some)
        sql(f"INSERT INTO main.web.scores VALUES {listed}")
    sql("DELETE FROM main.web.scores WHERE id % 2 = 1 OR id > 5")
    version = lake.warden.ground.tables.resolve("web.scores")
    for where, expected in FILTERS.items():
        _, batches = rows.batches(version, where, ["id"])
        assert {id for batch in batches for id in batch.column("id").to_pylist()} == expected, where
        assert rows.count(version, where, False, None, 1 << 30) == len(expected), where
        assert rows.files_of(version, where)
    assert {row["id"] for row in lake.warden.arrow("web.scores").to_pylist()} == {0, 2, 4}
    compared = lake.warden.compare.data("web.scores", str(version.snapshot.parent_snapshot_id))
    assert (compared.rows_removed, compared.rows_added) == (9, 0)
