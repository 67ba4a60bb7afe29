"""Rows staged over Spark Connect: the server continues after its client was killed, and nothing of it is published."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.engine.catalog.snapshots import lines_of, notes_of
from lakewarden.engine.commit.staging import STAGED
from lakewarden.warden import Workbench
from tests.engine.lakes import STAMP, unfenced
from tests.engine.new_files import SALES
from tests.engine.spark.test_forms import use
from tests.readers.spec import faults
from tests.small_lake import SmallLake

STAGE_AND_PUBLISH = """
import sys, time
from lakewarden import Warden
from lakewarden.engine.commit.new_rows import Append
from lakewarden.warden import Workbench
from tests.engine.lakes import STAMP, unfenced

seconds = float(sys.argv[2])

def rows(session):
    from pyspark.sql.functions import col, lit, udf
    slow = udf(lambda id: time.sleep(seconds) or id, "bigint")
    frame = session.range(0, 4, 1, 1).select(slow("id").alias("id"))
    return frame.select("id", lit("Oslo").alias("city"), (col("id") / 2).alias("amount"))

bench = Workbench(Warden.open(sys.argv[1]).ground, STAMP, unfenced, lambda *_: None)
uuid = str(bench.tables.load("main.shop.sales").metadata.table_uuid)
staged = bench.staging.stage("main.shop.sales", rows)
bench.commits.publish(Append("main.shop.sales", uuid, staged=staged))
"""


def process(lake: SmallLake, seconds_a_row: float) -> subprocess.Popen[bytes]:
    """A run of the same action; its rows take some time."""
    return subprocess.Popen([sys.executable, "-c", STAGE_AND_PUBLISH, str(lake.folder), str(seconds_a_row)])


def wait_for(what: Callable[[], Any], seconds: float) -> Any:
    until = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


@pytest.mark.spark
@pytest.mark.own_processes
@pytest.mark.slow
@pytest.mark.soak
def test_a_server_that_continues_after_its_client_was_killed(lake: SmallLake, spark_connect: str) -> None:
    use(lake, remote=spark_connect)
    lake.catalog.create_namespace("shop")
    lake.catalog.create_table("shop.sales", SALES)

    def table() -> Any:
        return lake.catalog.load_table("shop.sales")

    def staged_on(branch: str) -> list[int]:
        return [s.snapshot_id for s in table().metadata.snapshots if notes_of(s).get(STAGED) == branch]

    first = process(lake, seconds_a_row=2)
    (killed,) = wait_for(lambda: [ref for ref in table().metadata.refs if "staging" in ref], 60)
    time.sleep(2)  # the server is at work
    assert staged_on(killed) == []
    first.kill()
    first.wait()
    assert process(lake, seconds_a_row=0).wait(120) == 0

    assert sorted(table().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    (late,) = wait_for(lambda: staged_on(killed), 60)  # committed by the server, long after its client had died
    assert late not in lines_of(table(), [table().metadata.current_snapshot_id])
    assert sorted(table().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    Workbench(lake.warden.ground, STAMP, unfenced, lambda *_: None).sweep("main.shop.sales")  # as a later run would
    assert set(table().metadata.refs) == {"main"} and staged_on(killed) == []
    assert sorted(table().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    assert faults(table().metadata_location) == []
