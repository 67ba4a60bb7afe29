"""Real Spark servers for tests: a Connect server, and a standalone cluster, both on this machine only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from lakewarden.config import Environment
from lakewarden.engine.spark import jars, java

_HOME = Path(pyspark.__file__).parent
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@pytest.fixture(scope="session")
def spark_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server that has Iceberg, and knows no lake."""
    port = _free_port()
    command = [
        *(str(_HOME / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"),
        *("--jars", ",".join(iceberg_jars()), "--conf", f"spark.sql.extensions={_EXTENSIONS}"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    with _served(command, port, tmp_path_factory.mktemp("connect")):
        yield f"sc://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a standalone master with two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    port = _free_port()
    spark_class = str(_HOME / "bin" / "spark-class")
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [spark_class, "org.apache.spark.deploy.master.Master", *address, "--port", str(port)]
    url = f"spark://127.0.0.1:{port}"
    worker = [spark_class, "org.apache.spark.deploy.worker.Worker", *address, "--cores", "1", "--memory", "1g", url]
    with _served(master, port, folder), _started(worker, folder / "w1"), _started(worker, folder / "w2"):
        yield url


def iceberg_jars() -> list[str]:
    environment = Environment.read()
    found = jars.resolve(jars.wanted(s3=False), environment.cache / "jars", java.find(environment.java_home))
    return [str(path) for path in found]


@contextmanager
def _served(command: list[str], port: int, folder: Path) -> Iterator[None]:
    with _started(command, folder):
        deadline = time.monotonic() + 90
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield


@contextmanager
def _started(command: list[str], folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
