"""`lakewarden.sql`: the lists in Spark sessions of others (engine/sql/session_functions.py,
features/viewset/spark_lists.py)."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakewarden import sql
from lakewarden.errors import BadValue
from tests.features.viewset.logs import RANGE, Logs
from tests.small_lake import SmallLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TOP = Path(__file__).parents[1]


def listed(spark: SparkSession, name: str) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in spark.sql(f"SELECT * FROM {name}()").collect()]
    for row in rows:
        for column, value in row.items():
            row[column] = value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
    return sorted(rows, key=str)


def check(spark: SparkSession, lake: SmallLake) -> None:
    """Both lists, before and after changes of others, and the functions that refuse."""
    warden = lake.warden
    sql.register(spark, warden)
    assert listed(spark, "list_partitions") == listed(spark, "list_view_sets") == []
    logs = Logs(lake)
    logs.insert(0, 61)
    logs.define(instances="process_id")
    logs.write(3)  # the last one has no rows
    sql.register(spark, warden)
    for change in range(2):
        for name in ("list_partitions", "list_view_sets"):
            expected = warden.query(f"SELECT * FROM {name}()")
            found = listed(spark, name)
            assert found and len(found) == len(expected) and list(found[0]) == list(expected.columns)
        expected_rows = [vars(row) for row in warden.viewset.partitions()]
        assert listed(spark, "list_partitions") == sorted(expected_rows, key=str)
        if not change:
            logs.write(2, instance="p1")  # another statement sees it
    joined = spark.sql(
        "SELECT count(*) AS n FROM list_partitions() p JOIN list_view_sets() v "
        "ON p.view_set_name = v.view_set_name AND p.file_schema_hash = v.current_schema_hash"
    )
    assert joined.collect()[0]["n"] == 5
    logs.define(f"SELECT time, msg FROM raw.logs WHERE {RANGE}", instances="process_id")
    sql.register(spark, warden)
    assert listed(spark, "list_view_sets")[0]["schema"] == "time timestamptz, msg string"
    for text in (
        "SELECT retire_partition_by_file(file_path) FROM list_partitions()",
        "SELECT * FROM materialize_partitions('entries', '2026-01-01', '2026-01-02', 3600)",
    ):
        with pytest.raises(Exception, match="Run it with: lakewarden query"):
            spark.sql(text).collect()


def test_in_a_session(lake: SmallLake) -> None:
    own = lake.warden.ground.spark.session()
    check(own, lake)
    with pytest.raises(BadValue, match="the session has no catalog main"):
        sql.register(own.newSession(), lake.warden)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.own_processes
def test_over_spark_connect(lake: SmallLake, spark_connect: str) -> None:
    """In a process of its own, since a process has local sessions or remote ones."""
    config = lake.folder / "lakewarden.yaml"
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**settings, "spark": {"remote": spark_connect}}))
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom lakewarden import Warden\nfrom tests import test_sql\n"
        "from tests.small_lake import SmallLake\nlake = SmallLake.__new__(SmallLake)\n"
        "lake.folder, lake.warden = Path(sys.argv[1]), Warden.open(sys.argv[1])\n"
        "test_sql.check(lake.warden.ground.spark.session(), lake)\nprint('checked', flush=True)\nos._exit(0)"
    )
    command = [sys.executable, "-c", code, str(lake.folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=TOP)
    assert done.stdout.endswith("checked\n"), done.stderr[-3000:]
