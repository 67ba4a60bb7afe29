"""Interrupts while Spark starts, at each of its stages, in a process of its own with a JVM of its own."""

from __future__ import annotations

import pytest

from tests.small_lake import SmallLake

# Interrupts one start again and again: when it begins, when the JVM is asked for, when it answers, while the context
# is made, and while the session is. Each time the operation is paused and resumed; the last time it comes to its end.
SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
from lakewarden import Warden
from lakewarden.engine.spark.session import Spark
from lakewarden.errors import Interrupted
from pyspark import SparkContext

started, session = [], Spark.session
Spark.session = lambda spark: (started.append(spark), session(spark))[1]

def has_children():
    return any(task.joinpath("children").read_text() for task in Path("/proc/self/task").iterdir())

STAGES = {
    "begun": lambda: True,
    "jvm": has_children,
    "gateway": lambda: SparkContext._gateway is not None,
    "context": lambda: SparkContext._active_spark_context is not None,
    "session": lambda: hasattr(SparkContext._active_spark_context, "profiler_collector"),  # set last
}

def interrupt_at(stage):
    before = len(started)
    def wait():
        while len(started) == before or not STAGES[stage]():
            time.sleep(0.001)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=wait, daemon=True).start()

with Warden.open(sys.argv[1]) as warden:
    planned, id = warden.compaction.compact("sales.*", rewrite_all=True), None
    for stage in STAGES:
        interrupt_at(stage)
        try:
            planned.apply() if id is None else warden.operation.resume(id)
            sys.exit(f"{stage}: the interrupt was lost")
        except Interrupted as told:
            id = told.hint.split()[-1]
        (row,) = warden.operation.list()
        assert (row.state, row.done) == ("paused", 0), (stage, row)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, stage
        print(stage, "paused")
    (row,) = warden.operation.resume(id)
    assert (row.state, row.done) == ("done", 2), row
"""


@pytest.mark.spark
@pytest.mark.own_processes
def test_an_interrupt_at_any_stage_of_the_start_pauses_and_the_same_process_can_resume(lake: SmallLake) -> None:
    for name in ("sales.a", "sales.b"):
        lake.create(name, appends=2)
    lake.python(SCRIPT, str(lake.folder))
    (row,) = lake.warden.operation.list()
    assert (row.state, row.done) == ("done", 2)
    assert lake.ids("sales.a") == lake.ids("sales.b") == [0, 1, 2, 3]
