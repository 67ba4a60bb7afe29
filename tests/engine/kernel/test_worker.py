"""Workers list the archives on their module path once."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from lakewarden.engine.kernel import worker


def test_archives_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, later = tmp_path / "first.jar", tmp_path / "later"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("within_an_archive.py", "VALUE = 1")
    finder = zipimport.zipimporter(str(archive))
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive), str(later)])
    monkeypatch.setattr(sys, "path_importer_cache", {str(archive): finder})
    listed: list[str] = []

    def listing(path: str) -> dict[str, object]:
        listed.append(path)
        return {}

    monkeypatch.setattr(zipimport, "_read_directory", listing)
    importlib.invalidate_caches()
    assert listed == [str(archive)]  # as Spark has it done before each task
    worker.settle()
    importlib.invalidate_caches()
    assert listed == [str(archive)]
    later.mkdir()
    (later / "came_later.py").write_text("VALUE = 2")
    importlib.invalidate_caches()
    assert importlib.import_module("came_later").VALUE == 2  # folders are looked at as ever
    sys.modules.pop("came_later")
