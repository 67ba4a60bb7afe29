"""Workers list Spark's own archives on their module path once."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from lakewarden.engine.kernel import worker


def test_archives_of_spark_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("spark-core_2.13-4.1.4.jar", "pyspark.zip", "py4j-0.10.9.9-src.zip", "of_a_user.zip", "my_pyspark.zip")
    archives = [str(tmp_path / name) for name in names]
    for archive in archives:
        with zipfile.ZipFile(archive, "w") as content:
            content.writestr("within_an_archive.py", "VALUE = 1")
    finders = {archive: zipimport.zipimporter(archive) for archive in archives}
    listed: list[str] = []

    def listing(path: str) -> dict[str, object]:
        listed.append(path)
        return {}

    monkeypatch.setattr(sys, "path_importer_cache", finders)
    monkeypatch.setattr(zipimport, "_read_directory", listing)
    importlib.invalidate_caches()
    assert listed == archives  # as Spark has it done before each task
    worker.settle()
    listed.clear()
    importlib.invalidate_caches()
    assert listed == archives[3:]
