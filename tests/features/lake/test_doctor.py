"""`lake doctor`: everything that Lakewarden leans on, each line ok or with what to do.

Covers `engine/kernel/executor_functions.py`, `engine/spark/probe.py` and `features/policy/mistakes.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.config import Environment
from lakewarden.config import load as load_config
from lakewarden.doors.cli.main import run
from lakewarden.engine.spark import java
from lakewarden.engine.storage.storage import Storage
from lakewarden.features.lake.init import Init
from lakewarden.lifecycle.basics import Check
from lakewarden.warden import Warden
from tests.engine.lakes import Lake, digest, lake, nobody, open_lake, open_path, read_only

__all__ = ["lake", "open_lake", "open_path"]


def examined(warden: Warden, **given: Any) -> dict[str, Check]:
    """The doctor's lines by what they are about."""
    checks = warden.lake.doctor(**{"skip_spark": True} | given)
    assert len({check.part for check in checks}) == len(checks)
    for check in checks:
        assert check.found and (check.state == "ok" or check.advice), check
        assert "\n" not in check.found + check.advice
    return {check.part: check for check in checks}


def configured(folder: Path, **sections: Any) -> Warden:
    """The same lake with other settings."""
    path = folder / "lakewarden.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections, sort_keys=False))
    return Warden.open(folder)


def with_environment(folder: Path, **variables: str) -> Warden:
    environment = Environment.read(variables)
    return Warden(load_config(folder / "lakewarden.yaml", environment), environment)


class TestWell:
    def test_everything(self, lake: Lake) -> None:
        lake.create("sales.orders")
        lake.warden.version.tag("sales.orders", "v1").apply()
        checks = examined(lake.warden)
        assert {check.state for check in checks.values()} <= {"ok", "warning"}
        assert {"python", "java", "main: catalog", "main: storage", "control database"} <= set(checks)
        assert "pyiceberg" in checks["python"].found
        assert checks["main: catalog"].found == "type sql, 1 namespaces"
        assert checks["main: storage"].found.startswith("wrote, read, listed and deleted an object in file://")
        assert "spark" not in checks

    def test_nothing_is_left_behind(self, tmp_path: Path) -> None:
        Init(directory=tmp_path / "lake").make()
        before = digest(tmp_path / "lake")
        with Warden.open(tmp_path / "lake") as warden:
            examined(warden)
        assert digest(tmp_path / "lake") == before  # not even the control database is created

    def test_the_command(self, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["lake", "doctor", "--skip-spark", "--config", str(lake.folder)]) == 0
        assert "main: storage" in capsys.readouterr().out
        assert run(["lake", "doctor", "--skip-spark", "--config", str(lake.folder), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert {line["state"] for line in answer} <= {"ok", "warning"}
        assert all(set(line) == {"part", "state", "found", "advice"} for line in answer)


class TestSigningKey:
    def test_its_fingerprint_is_told(self, lake: Lake) -> None:
        check = examined(lake.warden)["signing key"]
        assert (check.state, lake.warden.lake.key().fingerprint in check.found) == ("ok", True)

    def test_one_that_is_missing_is_needed_by_certificates_only(self, lake: Lake) -> None:
        lake.warden.ground.settings.signing_key.unlink()
        check = examined(lake.warden)["signing key"]
        assert (check.state, "lake key --make" in check.advice) == ("warning", True)

    def test_one_that_everybody_can_read(self, lake: Lake) -> None:
        lake.warden.ground.settings.signing_key.chmod(0o644)
        check = examined(lake.warden)["signing key"]
        assert (check.state, "chmod 600" in check.advice) == ("failed", True)

    def test_one_in_a_folder_that_is_closed_to_this_user(self, open_lake: Lake) -> None:
        closed = open_lake.folder / "closed"
        closed.mkdir(mode=0o700)
        open_lake.warden.ground.settings.signing_key.rename(closed / "key.pem")
        with configured(open_lake.folder, signing_key="closed/key.pem") as warden:
            warden.lake.doctor(skip_spark=True)  # imports its modules, which nobody may not be able to read
            closed.chmod(0)
            with nobody():
                checks = {check.part: check for check in warden.lake.doctor(skip_spark=True)}
            closed.chmod(0o700)
        check = checks["signing key"]
        assert (check.state, check.advice) == ("warning", "Check its permissions.")
        assert "closed/key.pem cannot be read: Permission denied" in check.found


class TestCatalog:
    def test_one_that_is_not_there(self, lake: Lake) -> None:
        (lake.folder / "lake/catalog.db").unlink()
        checks = examined(Warden.open(lake.folder))
        assert checks["main: catalog"].state == "failed"
        assert "does not exist" in checks["main: catalog"].found and "lake init" in checks["main: catalog"].advice
        assert checks["main: storage"].state == "ok"  # the others are looked at all the same
        assert checks["control database"].state == "ok"
        assert not (lake.folder / "lake/catalog.db").exists()

    @pytest.mark.parametrize("content", [b"", b"no database at all " * 100])
    def test_one_that_is_broken(self, lake: Lake, content: bytes) -> None:
        (lake.folder / "lake/catalog.db").write_bytes(content)
        check = examined(Warden.open(lake.folder))["main: catalog"]
        assert check.state == "failed" and check.advice

    def test_one_of_two(self, lake: Lake) -> None:
        lakes = yaml.safe_load((lake.folder / "lakewarden.yaml").read_text())["lakes"]
        (lake.folder / "eu").mkdir()
        lakes["eu"] = {"catalog": {"type": "sql", "uri": "sqlite:///eu.db"}, "warehouse": "eu"}
        checks = examined(configured(lake.folder, lakes=lakes))
        assert checks["main: catalog"].state == "ok"
        assert checks["eu: catalog"].state == "failed"
        assert checks["eu: storage"].state == "ok"

    def test_exit_code(self, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        (lake.folder / "lake/catalog.db").unlink()
        assert run(["lake", "doctor", "--skip-spark", "--config", str(lake.folder)]) == 3
        captured = capsys.readouterr()
        assert "failed" in captured.out and captured.err == ""


class TestStorage:
    def test_one_that_cannot_be_written(self, open_lake: Lake) -> None:
        warehouse = open_lake.folder / "lake/warehouse"
        open_lake.warden.lake.doctor(skip_spark=True)  # imports its modules
        before = digest(open_lake.folder)
        with read_only(warehouse):  # as another user, who may not even read this checkout: only this line counts
            checks = open_lake.warden.lake.doctor(skip_spark=True)
        (check,) = [check for check in checks if check.part == "main: storage"]
        assert check.state == "failed" and check.found.startswith("cannot write: ")
        assert check.advice == f"Check file://{warehouse}."
        assert digest(open_lake.folder) == before

    def test_one_that_is_not_there(self, lake: Lake) -> None:
        (lake.folder / "lake/warehouse").rmdir()
        check = examined(lake.warden)["main: storage"]
        assert check.state == "failed" and check.found.startswith("there is no folder ")
        assert not (lake.folder / "lake/warehouse").exists()

    @pytest.mark.parametrize(
        ("method", "answer", "told"),
        [
            ("read", b"other", "the written object could not be read back"),
            ("list", [], "the written object could not be listed"),
        ],
    )
    def test_one_that_forgets(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str, answer: object, told: str
    ) -> None:
        monkeypatch.setattr(Storage, method, lambda *_: answer)
        check = examined(lake.warden)["main: storage"]
        assert (check.state, check.found) == ("failed", told)

    @pytest.mark.parametrize("step", ["read", "list", "delete"])
    def test_each_step_is_told_by_name(self, lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        def denied(*_: object) -> None:
            raise PermissionError("AccessDenied")

        monkeypatch.setattr(Storage, step, denied)
        check = examined(lake.warden)["main: storage"]
        assert check.state == "failed" and check.found.startswith(f"cannot {step}: ")
        assert "AccessDenied" in check.found
        assert step == "delete" or list((lake.folder / "lake/warehouse").iterdir()) == []


class TestJava:
    def test_none_at_java_home(self, lake: Lake, tmp_path: Path) -> None:
        check = examined(with_environment(lake.folder, HOME=str(tmp_path), JAVA_HOME="/nowhere"))["java"]
        assert check.state == "failed" and "there is none at JAVA_HOME=/nowhere" in check.found
        assert "Install Java 17 or newer" in check.advice and "JAVA_HOME" in check.advice

    def test_none_on_the_path(self, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        java.find.cache_clear()
        monkeypatch.setenv("PATH", str(tmp_path))
        try:
            check = examined(with_environment(lake.folder, HOME=str(tmp_path)))["java"]
        finally:
            java.find.cache_clear()
        assert check.state == "failed" and "there is none on the PATH" in check.found

    @pytest.mark.parametrize(
        ("said", "told"), [('openjdk version "11.0.2"', "is version 11"), ("what?", "is version 0")]
    )
    def test_one_that_is_too_old(self, lake: Lake, tmp_path: Path, said: str, told: str) -> None:
        home = tmp_path / "jdk"
        (home / "bin").mkdir(parents=True)
        (home / "bin/java").write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        (home / "bin/java").chmod(0o755)
        check = examined(with_environment(lake.folder, HOME=str(tmp_path), JAVA_HOME=str(home)))["java"]
        assert check.state == "failed" and told in check.found and "Spark needs 17" in check.found

    def test_without_it_spark_fails_and_the_rest_is_told(self, lake: Lake, tmp_path: Path) -> None:
        warden = with_environment(lake.folder, HOME=str(tmp_path), JAVA_HOME="/nowhere")
        checks = examined(warden, skip_spark=False)
        assert checks["java"].state == checks["spark"].state == "failed"
        assert checks["main: catalog"].state == checks["main: storage"].state == "ok"

    def test_jars_that_are_not_cached_yet(self, lake: Lake, tmp_path: Path) -> None:
        check = examined(with_environment(lake.folder, HOME=str(tmp_path)))["jars"]
        assert check.state == "warning" and "iceberg-spark-runtime" in check.found
        assert "aws-bundle" not in check.found  # no lake is on S3


class TestState:
    def test_sqlite_for_a_lake_on_s3(self, lake: Lake) -> None:
        lakes = yaml.safe_load((lake.folder / "lakewarden.yaml").read_text())["lakes"]
        (lake.folder / "lake/eu.db").write_bytes((lake.folder / "lake/catalog.db").read_bytes())
        storage = {"endpoint": "http://127.0.0.1:1", "access_key": "a", "secret_key": "hunter2", "region": "x"}
        lakes["eu"] = {
            "catalog": {"type": "sql", "uri": "sqlite:///lake/eu.db", "s3.connect-timeout": 1},
            "warehouse": "s3://bucket/wh",
            "storage": storage,
        }
        warden = configured(lake.folder, lakes=lakes)
        (sharing,) = [c for p in warden.ground.probes[:1] for c in p.look() if c.part == "control database sharing"]
        assert sharing.state == "warning" and "the warehouse of eu" in sharing.found
        assert "postgresql+psycopg://" in sharing.advice
        assert "hunter2" not in str(sharing)

    def test_one_that_cannot_be_reached(self, lake: Lake) -> None:
        warden = configured(lake.folder, state="postgresql+psycopg://u:hunter2@127.0.0.1:1/db")
        check = examined(warden)["control database"]
        assert check.state == "failed" and "does not respond" in check.found
        assert "hunter2" not in str(check)

    def test_one_whose_folder_is_not_there(self, lake: Lake) -> None:
        assert examined(configured(lake.folder, state="sqlite:///no/such/x.db"))["control database"].state == "failed"

    def test_an_address_that_cannot_be_read(self, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        """Whatever the state is, it is a line of the doctor and not the end of it."""
        configured(lake.folder, state="nonsense")
        code = run(["lake", "doctor", "--skip-spark", "--config", str(lake.folder)])
        captured = capsys.readouterr()
        assert code in (1, 3) and "Traceback" not in captured.out + captured.err
        assert "an unexpected error occurred" not in captured.err


@pytest.mark.spark
class TestSpark:
    def test_a_task_runs_on_the_executors(self, lake: Lake) -> None:
        lake.create("sales.orders")
        warden = configured(lake.folder, spark={"master": "local[2]", "memory": "2g"})
        checks = examined(warden, skip_spark=False)
        assert {check.state for check in checks.values()} == {"ok"}
        assert checks["spark"].found.startswith("version 4.") and checks["spark"].found.endswith("at local[2]")
        assert "a task ran on " in checks["executors"].found and "pyarrow" in checks["executors"].found
        assert checks["main: in Spark SQL"].found == "1 namespaces"

    def test_a_catalog_that_only_spark_cannot_reach(self, lake: Lake) -> None:
        lakes = yaml.safe_load((lake.folder / "lakewarden.yaml").read_text())["lakes"]
        lakes["main"]["spark"] = {"uri": "jdbc:sqlite:/no/such/folder/x.db"}
        warden = configured(lake.folder, lakes=lakes, spark={"master": "local[2]", "memory": "2g"})
        checks = examined(warden, skip_spark=False)
        assert checks["main: catalog"].state == "ok"
        assert checks["spark"].state == checks["executors"].state == "ok"
        assert checks["main: in Spark SQL"].state == "failed" and checks["main: in Spark SQL"].advice
