"""A real S3 server for tests: S3Proxy over a folder, on this machine only. Its jar comes by coordinate and checksum."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
import yaml

from lakewarden import Warden
from lakewarden.config import Environment
from lakewarden.engine.spark import java
from tests.small_lake import SmallLake

_VERSION = "4.1.0"
_SHA256 = "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d"
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tests" module="s3"/>
  <dependencies><dependency org="org.gaul" name="s3proxy" rev="{_VERSION}" transitive="false">
    <artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/>
  </dependency></dependencies>
</ivy-module>"""


@dataclass(frozen=True)
class S3:
    """How the server is reached; buckets are folders."""

    endpoint: str
    access_key: str
    secret_key: str
    folder: Path

    def new_bucket(self, name: str) -> str:
        (self.folder / name).mkdir()
        return f"s3://{name}"


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    folder = tmp_path_factory.mktemp("s3")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    buckets = folder / "buckets"
    buckets.mkdir()
    server = S3(f"http://127.0.0.1:{port}", "test-key", "test-secret", buckets)
    settings = {
        "s3proxy.endpoint": server.endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": server.access_key,
        "s3proxy.credential": server.secret_key,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(buckets),
    }
    (folder / "s3proxy.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [str(_java().command), "-jar", str(_jar()), "--properties", str(folder / "s3proxy.conf")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until_it_answers(port, folder / "log")
            yield server
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def on_s3(tmp_path: Path, s3: S3) -> Iterator[SmallLake]:
    """A lake in a bucket of its own, with its catalog beside the configuration."""
    with SmallLake(tmp_path / "lake") as lake:
        config = lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["lakes"]["main"]["warehouse"] = s3.new_bucket(f"lake-{abs(hash(tmp_path)) % 10**9}") + "/warehouse"
        settings["lakes"]["main"]["storage"] = {
            "endpoint": s3.endpoint,
            "access_key": s3.access_key,
            "secret_key": s3.secret_key,
            "region": "us-east-1",
        }
        config.write_text(yaml.safe_dump(settings))
        lake.warden.close()
        lake.warden = Warden.open(lake.folder)
        yield lake


def _java() -> java.Java:
    return java.find(Environment.read().java_home)


def _jar() -> Path:
    """The server's jar, fetched once into the same cache as Spark's."""
    cache = Environment.read().cache / "jars"
    jar = cache / f"s3proxy-{_VERSION}.jar"
    if not _is_good(jar):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            (Path(folder) / "ivy.xml").write_text(_IVY)
            classpath = f"{Path(pyspark.__file__).parent / 'jars'}/*"
            ivy = [str(_java().command), "-cp", classpath, "org.apache.ivy.Main", "-warn"]
            places = [
                "-ivy",
                f"{folder}/ivy.xml",
                "-cache",
                f"{folder}/cache",
                "-retrieve",
                f"{folder}/[artifact].[ext]",
            ]
            subprocess.run([*ivy, *places], check=True, capture_output=True)
            assert _is_good(Path(folder) / "s3proxy.jar"), "the jar's checksum is not the one that was pinned"
            (Path(folder) / "s3proxy.jar").replace(jar)
    return jar


def _is_good(jar: Path) -> bool:
    return jar.is_file() and hashlib.sha256(jar.read_bytes()).hexdigest() == _SHA256


def wait_until_it_answers(port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
