"""Jars by coordinate and checksum: resolved once by the Ivy that ships with Spark, cached, checked at every start.

Ivy's default repositories are used, or those in the settings file of `spark.jars.ivySettings`, as in Spark.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from lakewarden.engine.spark.java import Java
from lakewarden.errors import SparkUnavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Jar:
    organisation: str
    name: str
    version: str
    sha256: str
    wanted_by: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


def wanted(s3: bool) -> list[Jar]:
    """The jars that a session starts with; the large S3 one only if a lake is on S3."""
    return [*wanted_by("every lake"), *(wanted_by("s3") if s3 else ())]


def wanted_by(whom: str) -> list[Jar]:
    """The jars that one purpose needs."""
    text = resources.files("lakewarden.engine.spark").joinpath("jars.toml").read_text(encoding="utf-8")
    return [jar for jar in map(_jar, tomllib.loads(text)["jar"]) if jar.wanted_by == whom]


def _jar(entry: dict[str, str]) -> Jar:
    organisation, name, version = entry["coordinate"].split(":")
    return Jar(organisation, name, version, entry["sha256"], entry["for"])


def missing(jars: Iterable[Jar], cache: Path) -> list[Jar]:
    """The jars that are not in the cache, or have the wrong checksum."""
    return [jar for jar in jars if not _is_good(jar, cache / jar.file_name)]


def resolve(jars: Iterable[Jar], cache: Path, java: Java, ivy_settings: str | None = None) -> list[Path]:
    """The paths of the jars; those not in the cache are fetched first."""
    jars = list(jars)
    for jar in missing(jars, cache):
        log.info("fetching %s (once)", jar.coordinate)
        try:
            _fetch(jar, cache, java, ivy_settings)
        except OSError as error:
            raise SparkUnavailable(
                f"cannot fetch {jar.coordinate}: {error.filename or cache}: {error.strerror}",
                f"It is cached in {cache}, which must be writable; XDG_CACHE_HOME selects another folder.",
            ) from None
    return [cache / jar.file_name for jar in jars]


def _fetch(jar: Jar, cache: Path, java: Java, ivy_settings: str | None) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
        command = [
            *(str(java.command), "-cp", f"{_spark_jars()}{os.sep}*", "org.apache.ivy.Main", "-warn"),
            *("-cache", f"{folder}/ivy", "-types", "jar", "-notransitive", "-confs", "default"),
            *("-dependency", jar.organisation, jar.name, jar.version),
            *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
            *(("-settings", ivy_settings) if ivy_settings else ()),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = Path(folder) / jar.file_name
        if ended.returncode or not fetched.is_file():
            output = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip(" .:")]
            raise SparkUnavailable(
                f"cannot fetch {jar.coordinate}: {output[-1] if output else 'Ivy gave no reason'}",
                f"Without network access, put {jar.file_name} into {cache}.",
            )
        if not _is_good(jar, fetched):
            raise SparkUnavailable(
                f"{jar.coordinate} was fetched, but its checksum is not {jar.sha256[:12]}…",
                "It was changed in transit, and was not kept.",
            )
        fetched.replace(cache / jar.file_name)


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _is_good(jar: Jar, path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False
