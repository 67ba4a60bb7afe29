"""What `pip install .` gives: a package that is whole without this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, unpacked into an empty folder."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(TOP),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("lakewarden-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_has_every_file_that_is_not_python(installed: Path) -> None:
    source = {path.relative_to(TOP / "src") for path in (TOP / "src").rglob("*") if path.is_file()}
    data = {path for path in source if path.suffix not in (".py", ".pyc")}
    assert {path.name for path in data} >= {"jars.toml", "log4j2.properties", "py.typed", "script.py.mako"}
    assert [path for path in source if path.suffix != ".pyc" and not (installed / path).is_file()] == []


def test_has_its_commands(installed: Path) -> None:
    (found,) = distributions(name="lakewarden", path=[str(installed)])
    commands = found.entry_points.select(group="console_scripts")
    assert commands.names == {
        "lakewarden",
        "iceberg_retention_cleanup.py",
        "iceberg_compaction.py",
        "partition-manager",
    }
    assert all(callable(command.load()) for command in commands)


def test_sets_up_a_lake_and_its_control_database(installed: Path, tmp_path: Path) -> None:
    """Migrations are found in the package, not in this checkout."""
    environment = os.environ | {"PYTHONPATH": str(installed), "HOME": str(tmp_path)}

    def lakewarden(*arguments: str) -> str:
        code = "import lakewarden, sys; print(lakewarden.__file__, file=sys.stderr)\n"
        code += "from lakewarden.doors.cli.main import main; main()"
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert done.stderr.startswith(str(installed))
        return done.stdout

    lakewarden("lake", "init", "lake")
    assert json.loads(lakewarden("--config", "lake", "operation", "list", "--json")) == []
    assert (tmp_path / "lake" / "lakewarden.db").is_file()
    checks = json.loads(lakewarden("--config", "lake", "lake", "doctor", "--skip-spark", "--json"))
    assert {check["state"] for check in checks} <= {"ok", "warning"}
