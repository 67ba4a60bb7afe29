"""A compaction in each form of Spark, and on S3: the same command, each in a process of its own.

Local mode on local files is what every other test with Spark runs on.
"""

from __future__ import annotations

import json
import sys
import venv
from pathlib import Path

import pytest

from tests.engine.lakes import digest
from tests.engine.spark.test_forms import all_well, use
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.own_processes, pytest.mark.slow]


def compact(lake: SmallLake) -> None:
    """Compact twelve files by the command line, and see that nothing but files has changed."""
    with lake.catalog.load_table("sales.orders").transaction() as change:
        change.delete("id = 5")
    expected = [i for i in range(24) if i != 5]
    assert lake.ids() == expected

    done = json.loads(lake.run("compaction", "compact", "sales.orders", "--apply", "--json").stdout)

    assert done["operation"]["state"] == "done"
    assert (done["result"]["files_rewritten"], done["result"]["files_written"]) == (12, 1)
    assert lake.ids() == expected
    (analysis,) = lake.warden.compaction.analyze("sales.orders")
    assert (analysis.files, analysis.needs_compaction) == (1, False)
    again = lake.run("compaction", "compact", "sales.orders", "--check")
    assert again.returncode == 0


def test_over_spark_connect(lake: SmallLake, spark_connect: str) -> None:
    lake.create(appends=12)
    use(lake, remote=spark_connect)
    compact(lake)


@pytest.mark.soak
def test_on_a_standalone_cluster_with_two_workers(lake: SmallLake, spark_cluster: str) -> None:
    lake.create(appends=12)
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    use(lake, master=spark_cluster, memory="1g", conf=conf | {"spark.pyspark.python": sys.executable})
    compact(lake)
    found = all_well(lake)
    assert spark_cluster in found["spark"] and "a task ran" in found["executors"]


@pytest.mark.soak
def test_executors_whose_python_lacks_pyarrow(lake: SmallLake, spark_cluster: str, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    lake.create(appends=12)
    before = digest(lake.folder / "lake")
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.task.maxFailures": 1}
    use(lake, master=spark_cluster, memory="1g", conf=conf | {"spark.pyspark.python": str(bare / "bin" / "python")})

    done = lake.run("compaction", "compact", "sales.orders", "--apply", "--json", check=1)

    error = json.loads(done.stdout)["error"]
    assert error["message"] == "the Python of Spark's executors has no pyarrow"
    assert "spark.pyspark.python" in error["hint"]
    assert digest(lake.folder / "lake") == before


@pytest.mark.soak
def test_on_s3(on_s3: SmallLake) -> None:
    on_s3.create(appends=12)
    compact(on_s3)
    location = on_s3.warden.table.show("sales.orders").location
    assert location.startswith("s3://lake-")
