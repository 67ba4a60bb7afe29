"""The same commands in each form of Spark: Connect and a standalone cluster, each in a process of its own.

Local mode is what every other test with Spark runs on.
"""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from tests.small_lake import SmallLake


def use(lake: SmallLake, **spark: object) -> None:
    config = lake.folder / "lakewarden.yaml"
    settings = yaml.safe_load(config.read_text())
    settings["spark"] = spark
    config.write_text(yaml.safe_dump(settings))


def all_well(lake: SmallLake) -> dict[str, str]:
    """What the doctor found, by part; nothing may have failed."""
    checks = json.loads(lake.run("lake", "doctor", "--json").stdout)
    assert [check for check in checks if check["state"] == "failed"] == []
    return {check["part"]: check["found"] for check in checks}


def create(lake: SmallLake) -> None:
    """A table that only Spark can change, by the Spark that is tried."""
    lake.sql_elsewhere(
        "CREATE NAMESPACE main.sales",
        "CREATE TABLE main.sales.orders (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')",
        *(f"INSERT INTO main.sales.orders VALUES ({id})" for id in range(3)),
    )


@pytest.mark.spark
@pytest.mark.own_processes
@pytest.mark.slow
@pytest.mark.soak
def test_over_spark_connect(lake: SmallLake, spark_connect: str) -> None:
    use(lake, remote=spark_connect)
    create(lake)
    oldest = lake.warden.version.list("sales.orders")[-1].snapshot_id

    found = all_well(lake)
    lake.run("version", "tag", "sales.orders", "v1", "--note", "it's over Connect")
    lake.run("version", "rollback", f"sales.orders@{oldest}", "--apply")

    assert spark_connect in found["spark"]
    assert "a task ran" in found["executors"]
    assert lake.refs()["main"] == oldest
    assert lake.warden.version.show("sales.orders@v1").refs[-1].note == "it's over Connect"


@pytest.mark.spark
@pytest.mark.own_processes
@pytest.mark.slow
@pytest.mark.soak
def test_on_a_standalone_cluster(lake: SmallLake, spark_cluster: str) -> None:
    """A compaction runs there in tests/engine/rewrite/test_forms.py."""
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    use(lake, master=spark_cluster, memory="1g", conf=conf | {"spark.pyspark.python": sys.executable})
    create(lake)

    found = all_well(lake)
    lake.run("version", "tag", "sales.orders", "v1")

    assert spark_cluster in found["spark"]
    assert "a task ran" in found["executors"]
    assert set(lake.refs()) == {"main", "v1"}


def test_a_server_that_is_not_there_is_said_in_one_line(lake: SmallLake) -> None:
    lake.create()
    use(lake, remote="sc://127.0.0.1:1")
    done = lake.run("lake", "doctor", "--json", check=3)
    (failed,) = [check for check in json.loads(done.stdout) if check["state"] == "failed"]
    assert "no Spark Connect server responds at sc://127.0.0.1:1" in failed["found"]
    assert failed["advice"]
