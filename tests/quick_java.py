"""Spark's classes as the JVM has them in memory, kept in a file: tests start dozens of JVMs, each of which would spend
half of its short life on loading and checking the same classes.

The file is made once for a version of Spark and of Java, while tests run already; whoever starts before it is there
starts as ever. It comes by one rename, since a JVM does not live through half a file. One that is of other classes than
a JVM wants is passed over by it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakewarden.config import Environment
from lakewarden.engine.spark import java
from tests.small_lake import SmallLake

# A statement runs once or twice here: what the JVM compiles for long runs takes nearly half of the time of short ones.
_FOR_SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
_making = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """If any test needs Spark, let all JVMs look for the file, and have it made beside the first tests."""
    if not any(item.get_closest_marker("spark") for item in session.items):
        return
    file = _archive()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_FOR_SHORT_RUNS} -XX:SharedArchiveFile={file}")
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    if worker == "gw0" and not file.exists():
        session.config.stash[_making] = subprocess.Popen(
            [sys.executable, "-m", __name__, str(file)], stdout=subprocess.DEVNULL
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let it come to its end, once: cut off, it would be begun anew by the next short run, and leave things behind."""
    making = config.stash.get(_making, None)
    if making is not None:
        making.wait(180)


def _archive() -> Path:
    """Where the file is, or will be. It is of no use to another JVM, nor to Spark in another place."""
    environment = Environment.read()
    command = java.find(environment.java_home).command
    version = subprocess.run([command, "-version"], capture_output=True, check=True).stderr
    of = sha256(version + os.fsencode(pyspark.__file__)).hexdigest()[:12]
    return environment.cache / "jars" / f"spark-{pyspark.__version__}-{of}.jsa"


def make(file: Path) -> None:
    """Do with Spark what tests do, in a JVM that writes down what it has loaded when it ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / "made.jsa"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{_FOR_SHORT_RUNS} -XX:ArchiveClassesAtExit={made}"
        with SmallLake(Path(folder) / "lake") as lake:
            lake.create(format=3)
            lake.create("sales.returns", appends=12)
            for table in ("sales.orders", "sales.returns"):
                lake.warden.ground.spark.sql(f"DELETE FROM main.{table} WHERE id = 1")
                lake.warden.compaction.compact(table, rewrite_all=True).apply()
                lake.warden.ground.spark.sql(f"SELECT city, COUNT(*) FROM main.{table} GROUP BY city").collect()
        _end_java()
        made.replace(file)


def _end_java() -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    SparkContext.getOrCreate().stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
