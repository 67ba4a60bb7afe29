"""A real Iceberg REST catalog for tests: Iceberg's own, over SQLite and a folder, on this machine only.

It is the servlet of Iceberg's fixture server. That server's own `main` listens on every address of the machine, so
Jetty is told by a file of its own to serve the same servlet on 127.0.0.1. Jars come by coordinate and checksum;
Hadoop, Jackson and Avro are those that Spark carries.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from xml.sax.saxutils import escape

import pyspark
import pytest

from lakewarden.config import Environment
from lakewarden.engine.spark import jars, java

_SPARK_JARS = f"{Path(pyspark.__file__).parent / 'jars'}/*"
_JARS = {  # group:name:version[:classifier], the newest for which Iceberg has published its test classes
    "org.apache.iceberg:iceberg-core:1.11.0:tests": "4284719a5f0eb7db01e9f784a0ed4ca8bacf7d6f9951924143afc083428d8be3",
    "org.apache.iceberg:iceberg-core:1.11.0": "53b9eb7a8c34fb9958ea7d9a4d19ba5bc96f592d0f05e8625b0778c70b1f0090",
    "org.apache.iceberg:iceberg-api:1.11.0": "f00675a12ceb6d833bb9c22024823a3e7afdedf7abcefe34719f45b0d211995a",
    "org.apache.iceberg:iceberg-common:1.11.0": "b2835d00db7c92bdfa728123ad7cdcb488e2f2805c1c51fb9ae94e8bd203bd7d",
    "org.apache.iceberg:iceberg-bundled-guava:1.11.0": (
        "396d48d93ef5735f2ddef0cf9b3d6968ebd67b64b5cfe753d41c429d3f46a2a1"
    ),
    "org.apache.httpcomponents.core5:httpcore5:5.4": "cec2981fa7f520efb63f0787c24f10af2679e31f9f75c448c4dde40a3ae8100d",
    "com.github.ben-manes.caffeine:caffeine:2.9.3": "1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b",
    "jakarta.servlet:jakarta.servlet-api:6.0.0": "c034eb1afb158987dbb53a5fea0cadf611c8dae8daadd59c44d9d5ab70129cef",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.0.23": (
        "49697e659c72b544638e7e2220c85ce006045da57655375223b9239bcb170f1f"
    ),
    "org.eclipse.jetty:jetty-http:12.0.23": "2abcaace6620fc33ae1858009079baa801702990eec664b8847722206945589d",
    "org.eclipse.jetty:jetty-io:12.0.23": "6974d8e9be69d39b2c0308d44699cef0d96132bbb636abf0e1226184b66b1b5e",
    "org.eclipse.jetty:jetty-security:12.0.23": "b4e4c14f8c1bfd0a4939adada33ea7449199b2523d00d211488ff81799bb3c0c",
    "org.eclipse.jetty:jetty-server:12.0.23": "c3f0241496a1c71c7050bcd9de0531e66ec09087ffecd9ba951fe33f2456cf42",
    "org.eclipse.jetty:jetty-session:12.0.23": "ab37362935611b8f855c8bcddea97cd6fcd7e4f46aaa05b425a53926503c5e20",
    "org.eclipse.jetty:jetty-util:12.0.23": "742518cb7ce7151fa2b6c54819e9b65204c0f9da1193812261fa5655618e2c97",
    "org.eclipse.jetty:jetty-xml:12.0.23": "de4301cce2787a8abcbe2da1c60003540e2c80d361b55b843e9849bebe720f5f",
}
_SERVER = """<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "configure_10_0.dtd">
<Configure class="org.eclipse.jetty.server.Server">
  <Arg><New class="java.net.InetSocketAddress"><Arg>127.0.0.1</Arg><Arg type="int">{port}</Arg></New></Arg>
  <Set name="handler"><New class="org.eclipse.jetty.ee10.servlet.ServletContextHandler">
    <Call name="addServlet">
      <Arg><New class="org.eclipse.jetty.ee10.servlet.ServletHolder">
        <Arg><New class="org.apache.iceberg.rest.RESTCatalogServlet">
          <Arg><New class="org.apache.iceberg.rest.RESTCatalogAdapter">
            <Arg><Call class="org.apache.iceberg.CatalogUtil" name="buildIcebergCatalog">
              <Arg>rest</Arg>
              <Arg><Map>{properties}</Map></Arg>
              <Arg><New class="org.apache.hadoop.conf.Configuration"/></Arg>
            </Call></Arg>
          </New></Arg>
        </New></Arg>
      </New></Arg>
      <Arg>/*</Arg>
    </Call>
  </New></Set>
</Configure>"""


@dataclass(frozen=True)
class RestCatalog:
    """How the server is reached, and the folder that holds its tables."""

    uri: str
    folder: Path

    @property
    def warehouse(self) -> str:
        return f"file://{self.folder}"

    def clear(self) -> None:
        """Drop every table and namespace, and remove their files."""
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("rest", type="rest", uri=self.uri, warehouse=self.warehouse)
        namespaces = list(catalog.list_namespaces())
        for namespace in namespaces:  # grows while it is gone through
            namespaces += catalog.list_namespaces(namespace)
        for namespace in reversed(namespaces):
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)
            catalog.drop_namespace(namespace)
        catalog.close()
        shutil.rmtree(self.folder)
        self.folder.mkdir()


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    folder = tmp_path_factory.mktemp("rest")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = RestCatalog(f"http://127.0.0.1:{port}", folder / "warehouse")
    server.folder.mkdir()
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "jdbc.schema-version": "V1",
        "warehouse": server.warehouse,
    }
    entries = "".join(
        f"<Entry><Item>{escape(key)}</Item><Item>{escape(value)}</Item></Entry>" for key, value in properties.items()
    )
    (folder / "server.xml").write_text(_SERVER.format(port=port, properties=entries))
    classpath = os.pathsep.join([*map(str, _jars()), _SPARK_JARS])
    run = ["-Xmx512m", "-cp", classpath, "org.eclipse.jetty.xml.XmlConfiguration", str(folder / "server.xml")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([str(_java().command), *run], stdout=log, stderr=log, cwd=folder)
        try:
            _wait_until_it_answers(server.uri, process, folder / "log")
            yield server
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def rest_catalog(rest_server: RestCatalog) -> Iterator[RestCatalog]:
    """The server with nothing in it."""
    yield rest_server
    rest_server.clear()


def _java() -> java.Java:
    return java.find(Environment.read().java_home)


def _jars() -> list[Path]:
    """The server's jars, fetched once into the same cache as Spark's, and SQLite's driver, which Spark needs too."""
    cache = Environment.read().cache / "jars"
    if not all(_is_good(cache, coordinate) for coordinate in _JARS):
        _fetch(cache)
    sqlite = [jar for jar in jars.wanted(s3=False) if jar.name == "sqlite-jdbc"]
    return [*(cache / _file_name(coordinate) for coordinate in _JARS), *jars.resolve(sqlite, cache, _java())]


def _fetch(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        (Path(folder) / "ivy.xml").write_text(_ivy_module())
        ivy = [str(_java().command), "-cp", _SPARK_JARS, "org.apache.ivy.Main", "-warn"]
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        places = ["-ivy", f"{folder}/ivy.xml", "-cache", f"{folder}/cache", "-retrieve", pattern]
        subprocess.run([*ivy, *places], check=True, capture_output=True)
        for coordinate in _JARS:
            assert _is_good(Path(folder), coordinate), f"{coordinate}: the checksum is not the one that was pinned"
            (Path(folder) / _file_name(coordinate)).replace(cache / _file_name(coordinate))


def _ivy_module() -> str:
    modules: dict[tuple[str, ...], list[str]] = {}
    for coordinate in _JARS:
        group, name, version, *classifier = coordinate.split(":")
        special = f' m:classifier="{classifier[0]}"' if classifier else ""
        artifact = f'<artifact name="{name}" type="jar" ext="jar"{special}/>'
        modules.setdefault((group, name, version), []).append(artifact)
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false">{"".join(artifacts)}</dependency>'
        for (group, name, version), artifacts in modules.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        f'<info organisation="tests" module="rest"/><dependencies>{dependencies}</dependencies></ivy-module>'
    )


def _file_name(coordinate: str) -> str:
    return "-".join(coordinate.split(":")[1:]) + ".jar"


def _is_good(folder: Path, coordinate: str) -> bool:
    jar = folder / _file_name(coordinate)
    return jar.is_file() and hashlib.sha256(jar.read_bytes()).hexdigest() == _JARS[coordinate]


def _wait_until_it_answers(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{uri}/v1/config", timeout=5).close()
            return
        except (URLError, OSError):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
