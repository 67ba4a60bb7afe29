"""`compare data` on Spark: the same answers as in this process, over tables of every format.

Covers `engine/comparison/on_spark.py` and `engine/comparison/lineage.py`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from lakewarden.engine.comparison.differing_files import apart
from lakewarden.engine.comparison.lineage import lineage_of
from lakewarden.engine.kernel.compare_messages import Compared, Part
from lakewarden.engine.kernel.compared_files import ComparedFiles
from lakewarden.features.compare.answer import DataComparison
from tests.features.compare.test_data import assert_equal, both_sides, counts
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
NOT_COMPARED = ("method", "files_read", "bytes_read")


def everywhere(lake: SmallLake, *arguments: Any, **options: Any) -> DataComparison:
    """An answer that is the same in this process and on Spark."""
    compare = lake.warden.compare.data
    here: DataComparison = compare(*arguments, **options)
    assert "in this process" in here.method
    comparisons = lake.warden.ground.comparisons
    settings = comparisons._settings
    nothing = settings.compare.model_copy(update={"in_process_mb": 0})
    comparisons._settings = settings.model_copy(update={"compare": nothing})
    try:
        there = compare(*arguments, **options)
    finally:
        comparisons._settings = settings
    assert "on Spark" in there.method
    for field in dataclasses.fields(DataComparison):
        if field.name not in NOT_COMPARED:
            assert getattr(here, field.name) == getattr(there, field.name), field.name
    return here


def check_lineage(lake: SmallLake, name: str) -> None:
    """Row lineage is read as Spark reads it, used where it helps, and changes no answer."""
    table = lake.catalog.load_table(name)
    files = lake.warden.ground.comparisons._files
    old, new = table.snapshot_by_name("v1"), table.current_snapshot()
    everything = apart(files.of(table, old), files.of(table, new))
    lineage = lineage_of(table, (old, new), everything)
    parts = [
        Part(n, each.file.path, each.file.rows, 0, "compare", {"to": ()}, lineage=lineage[each.file.path])
        for n, each in enumerate(everything.differing)
    ]
    read = ComparedFiles(Compared({}, 0)).lineage(parts)
    ours = Counter(pair for *_, ids, updated in read for pair in zip(ids.tolist(), updated.tolist(), strict=True))
    columns = "_row_id, _last_updated_sequence_number"
    sides = (f"VERSION AS OF {snapshot.snapshot_id}" for snapshot in (old, new))
    spark = [
        row
        for side in sides
        for row in lake.warden.ground.spark.sql(f"SELECT {columns} FROM main.{name} {side}").collect()
    ]
    assert ours == Counter((row[0], row[1]) for row in spark)
    found = everywhere(lake, name, "v1", "v2", key="id")
    assert "row lineage" in found.method
    comparisons = lake.warden.ground.comparisons
    settings = comparisons._settings
    without = settings.compare.model_copy(update={"row_lineage": False})
    comparisons._settings = settings.model_copy(update={"compare": without})
    plain = lake.warden.compare.data(name, "v1", "v2", key="id")
    comparisons._settings = settings
    assert "row lineage" not in plain.method
    for field in dataclasses.fields(DataComparison):
        if field.name not in NOT_COMPARED:
            assert getattr(plain, field.name) == getattr(found, field.name), field.name


@pytest.fixture(scope="module")
def spark_lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with SmallLake(tmp_path_factory.mktemp("compare") / "lake") as lake:
        lake.catalog.create_namespace("s")
        yield lake


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        pytest.param(2, "merge-on-read"),
        pytest.param(2, "copy-on-write", marks=pytest.mark.soak),
        pytest.param(3, "merge-on-read", marks=pytest.mark.soak),
        pytest.param(3, "copy-on-write"),
    ],
)
def test_what_spark_wrote(spark_lake: SmallLake, format: int, mode: str) -> None:
    name = f"s.t{format}_{mode[:4]}"
    sql = spark_lake.warden.ground.spark.sql
    sql(
        f"CREATE TABLE main.{name} (id BIGINT, name STRING, amount DOUBLE, tags ARRAY<STRING>, facts MAP<STRING, INT>) "
        f"USING iceberg TBLPROPERTIES ('format-version' = '{format}', 'write.delete.mode' = '{mode}', "
        f"'write.update.mode' = '{mode}')"
    )
    columns = "id, concat('n', id), id / 3, array('a', string(id)), map('k', int(id), 'l', 1)"
    for start in (0, 100, 200):
        sql(f"INSERT INTO main.{name} SELECT {columns} FROM range({start}, {start + 100})")
    spark_lake.warden.version.tag(name, "v1").apply()
    sql(f"UPDATE main.{name} SET amount = -1 WHERE id % 50 = 7")
    sql(f"DELETE FROM main.{name} WHERE id BETWEEN 120 AND 129")
    spark_lake.warden.version.tag(name, "v2").apply()
    sql(f"CALL main.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    sql(f"INSERT INTO main.{name} SELECT {columns} FROM range(300, 310)")
    found = everywhere(spark_lake, name, "v1", key="id")
    assert counts(found) == (10, 10, 6, 284)
    if mode == "merge-on-read":  # by copy on write every file was rewritten before: then the compaction reads less
        assert "replace" in found.method
    assert counts(everywhere(spark_lake, name, "v1", "v2", key="id")) == (0, 10, 6, 284)
    assert counts(everywhere(spark_lake, name, "main", "v1", key="id")) == (10, 10, 6, 284)
    everywhere(spark_lake, name, "v1", key="id", where="id > 150", check_keys=True)
    if format == 3 and mode == "copy-on-write":
        check_lineage(spark_lake, name)
    table = spark_lake.catalog.load_table(name)
    if format == 2:  # PyIceberg reads no deletion vectors that others wrote for tables with a history like this
        refs = table.metadata.refs
        before, after = refs["v1"].snapshot_id, table.current_snapshot().snapshot_id
        assert_equal(found, *both_sides(table, before, after), ["id"])
