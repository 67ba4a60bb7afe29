"""Jars: fetched once, checked always, and what to do where they cannot be had."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.engine.spark import java
from lakewarden.engine.spark.jars import Jar, missing, resolve, wanted
from lakewarden.engine.spark.java import Java
from lakewarden.errors import SparkUnavailable

CONTENT = b"PK: something that is a jar"
JAR = Jar("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest(), "every lake")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "jars"


class Ivy:
    """Stands in for `java … org.apache.ivy.Main`: puts a file where it is asked to, or fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "java"
        self.calls = folder / "calls"

    def does(self, script: str) -> Java:
        retrieve = 'while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && folder=${2%/*}; shift; done\n'
        self.command.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(self.calls))}\n{retrieve}{script}\n')
        self.command.chmod(0o755)
        return Java(self.command, 17)

    def gives(self, content: bytes, name: str = JAR.file_name) -> Java:
        (self.folder / "content").write_bytes(content)
        return self.does(f'cp {shlex.quote(str(self.folder / "content"))} "$folder/{name}"')

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def ivy(tmp_path: Path) -> Ivy:
    return Ivy(tmp_path)


class TestWanted:
    def test_the_large_one_only_for_s3(self) -> None:
        plain, with_s3 = wanted(s3=False), wanted(s3=True)
        assert [jar.name for jar in with_s3 if jar not in plain] == ["iceberg-aws-bundle"]
        assert {"iceberg-spark-runtime-4.1_2.13", "sqlite-jdbc", "postgresql"} <= {jar.name for jar in plain}

    def test_each_has_a_whole_checksum(self) -> None:
        for jar in wanted(s3=True):
            assert len(jar.sha256) == 64 and int(jar.sha256, 16)
            assert jar.coordinate == f"{jar.organisation}:{jar.name}:{jar.version}"
            assert jar.file_name == f"{jar.name}-{jar.version}.jar"


class TestFetching:
    def test_once(self, cache: Path, ivy: Ivy) -> None:
        tool = ivy.gives(CONTENT)
        assert missing([JAR], cache) == [JAR]
        assert resolve([JAR], cache, tool) == [cache / "thing-1.0.jar"]
        assert (cache / "thing-1.0.jar").read_bytes() == CONTENT
        assert missing([JAR], cache) == []
        assert resolve([JAR], cache, tool) == [cache / "thing-1.0.jar"]
        assert len(ivy.called) == 1
        assert [path.name for path in cache.iterdir()] == ["thing-1.0.jar"]  # no folders are left

    def test_what_ivy_is_told(self, cache: Path, ivy: Ivy) -> None:
        resolve([JAR], cache, ivy.gives(CONTENT), "/etc/ivy settings.xml")
        (called,) = ivy.called
        assert "org.apache.ivy.Main" in called
        assert "-dependency org.example thing 1.0" in called
        assert "-notransitive" in called and "-types jar" in called
        assert called.endswith("-settings /etc/ivy settings.xml")

    def test_ivys_own_repositories_without_settings(self, cache: Path, ivy: Ivy) -> None:
        resolve([JAR], cache, ivy.gives(CONTENT))
        assert "-settings" not in ivy.called[0]

    def test_only_those_that_are_missing(self, cache: Path, ivy: Ivy) -> None:
        other = replace(JAR, name="other")
        cache.mkdir(parents=True)
        (cache / other.file_name).write_bytes(CONTENT)
        assert resolve([JAR, other], cache, ivy.gives(CONTENT)) == [cache / JAR.file_name, cache / other.file_name]
        assert len(ivy.called) == 1

    def test_nothing_is_started_when_all_are_there(self, cache: Path) -> None:
        cache.mkdir(parents=True)
        (cache / JAR.file_name).write_bytes(CONTENT)
        assert resolve([JAR], cache, Java(Path("/no/java"), 17)) == [cache / JAR.file_name]

    @pytest.mark.parametrize("broken", [b"", CONTENT[:-1], CONTENT + b"x"])
    def test_a_corrupt_one_is_fetched_again(self, cache: Path, ivy: Ivy, broken: bytes) -> None:
        cache.mkdir(parents=True)
        (cache / JAR.file_name).write_bytes(broken)
        assert missing([JAR], cache) == [JAR]
        resolve([JAR], cache, ivy.gives(CONTENT))
        assert (cache / JAR.file_name).read_bytes() == CONTENT


class TestRefused:
    def test_another_checksum(self, cache: Path, ivy: Ivy) -> None:
        with pytest.raises(
            SparkUnavailable, match="org.example:thing:1.0 was fetched, but its checksum is not"
        ) as caught:
            resolve([JAR], cache, ivy.gives(b"something else"))
        assert JAR.sha256[:12] in caught.value.message
        assert "was not kept." in caught.value.hint
        assert list(cache.iterdir()) == []

    def test_another_checksum_does_not_replace_what_was_there(self, cache: Path, ivy: Ivy) -> None:
        cache.mkdir(parents=True)
        (cache / JAR.file_name).write_bytes(b"put here by hand, and wrong")
        with pytest.raises(SparkUnavailable):
            resolve([JAR], cache, ivy.gives(b"something else"))
        assert (cache / JAR.file_name).read_bytes() == b"put here by hand, and wrong"

    @pytest.mark.parametrize(
        ("script", "told"),
        [
            (
                "echo ':: resolving'; echo 'Server access error at url https://repo1.maven.org'; exit 1",
                "Server access error at url https://repo1.maven.org",
            ),
            ("echo 'java.net.UnknownHostException: repo1.maven.org' >&2; exit 1", "UnknownHostException"),
            ("exit 1", "Ivy gave no reason"),
            ("exit 0", "Ivy gave no reason"),
            ("echo '::::::::'; exit 1", "Ivy gave no reason"),
        ],
    )
    def test_no_network(self, cache: Path, ivy: Ivy, script: str, told: str) -> None:
        with pytest.raises(SparkUnavailable, match="cannot fetch org.example:thing:1.0: ") as caught:
            resolve([JAR], cache, ivy.does(script))
        assert told in caught.value.message and "\n" not in caught.value.message
        assert caught.value.hint == f"Without network access, put thing-1.0.jar into {cache}."
        assert list(cache.iterdir()) == []

    def test_a_cache_that_cannot_be_made(self, tmp_path: Path, ivy: Ivy) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SparkUnavailable, match="cannot fetch .*: Not a directory") as caught:
            resolve([JAR], tmp_path / "file" / "jars", ivy.gives(CONTENT))
        assert "XDG_CACHE_HOME" in caught.value.hint

    def test_a_java_that_is_gone_by_then(self, cache: Path) -> None:
        with pytest.raises(SparkUnavailable, match="cannot fetch org.example:thing:1.0"):
            resolve([JAR], cache, Java(Path("/no/java"), 17))


class TestJava:
    @pytest.fixture(autouse=True)
    def _forgotten(self) -> None:
        java.find.cache_clear()

    def test_none_on_the_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SparkUnavailable, match="there is none on the PATH") as caught:
            java.find(None)
        assert "apt install openjdk-17-jre-headless" in caught.value.hint and "JAVA_HOME" in caught.value.hint

    def test_none_at_home(self, tmp_path: Path) -> None:
        with pytest.raises(SparkUnavailable, match=f"there is none at JAVA_HOME={tmp_path}"):
            java.find(tmp_path)

    def test_one_that_does_not_start(self, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin/java").chmod(0o755)
        with pytest.raises(SparkUnavailable, match="there is none at JAVA_HOME"):
            java.find(tmp_path)

    @pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
    def test_versions(self, tmp_path: Path, said: str, version: int) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\" 2025-04-15' >&2\n")
        (tmp_path / "bin/java").chmod(0o755)
        assert java.find(tmp_path) == Java(tmp_path / "bin/java", version)

    @pytest.mark.parametrize("said", ["1.8.0_202", "11.0.2", "16"])
    def test_too_old(self, tmp_path: Path, said: str) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text(f"#!/bin/sh\necho 'java version \"{said}\"' >&2\n")
        (tmp_path / "bin/java").chmod(0o755)
        with pytest.raises(SparkUnavailable, match=f"is version {said.split('.')[0]}; Spark needs 17 or newer"):
            java.find(tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_a_real_one(cache: Path) -> None:
    """The smallest of those that are wanted, from the repositories that Ivy itself knows."""
    (jar,) = [jar for jar in wanted(s3=False) if jar.name == "postgresql"]
    assert resolve([jar], cache, java.find(None)) == [cache / jar.file_name]
    assert hashlib.sha256((cache / jar.file_name).read_bytes()).hexdigest() == jar.sha256
    assert [path.name for path in cache.iterdir()] == [jar.file_name]
