"""Older releases of Iceberg, on Spark 3.5, read what Lakewarden wrote: every branch and tag, vectorised and not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.config import Environment
from tests.readers.cells import comparable, difference
from tests.readers.lives import long_life
from tests.readers.tables import Table
from tests.readers.test_readers import ask, compact, hide, purge
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
PYSPARK = "3.5.9"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def old_python() -> Path:
    """A Python with Spark 3.5, in a virtual environment that is made once and kept beside the jars."""
    folder = Environment.read().cache / f"pyspark-{PYSPARK}"
    python = folder / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        install = ["-m", "pip", "install", "--quiet", f"pyspark=={PYSPARK}"]
        subprocess.run([python, *install], check=True, timeout=1200)
        done.touch()
    return python


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """One that was hidden from, compacted and purged."""
    with SmallLake(tmp_path_factory.mktemp("older") / "lake") as lake:
        lake.catalog.create_namespace("db")
        made = long_life(lake, "db.t", 2)
        ask(made)
        for operation in (hide, compact, purge):
            operation(made)
        yield made


@pytest.mark.parametrize("release", ["1.5.2", "1.9.2"])
def test_older_iceberg(table: Table, old_python: Path, release: str) -> None:
    fields = {ref.name: table.fields(None if ref.kind == "branch" else ref.snapshot_id) for ref in table.refs}
    folder = table.lake.folder / "lake"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [old_python, "-m", "tests.soak.older_iceberg", release, folder / "catalog.db", folder / "warehouse"],
        input=json.dumps({"table": table.name, "refs": fields}),
        env=environment | {"PYTHONPATH": str(ROOT), "TZ": "UTC"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])  # before it, Ivy tells what it resolved
    assert set(found) == {"true", "false"}
    for vectorised, refs in found.items():
        for ref, rows in refs.items():
            expected = comparable(table.expected(ref, fields[ref]), fields[ref])
            assert difference(Counter(rows), expected) == "", f"{ref}, vectorised: {vectorised}"


def test_this_is_another_python(old_python: Path) -> None:
    """Else the older release would not be what is tried."""
    version = [str(old_python), "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.run(version, capture_output=True, text=True, check=True).stdout.strip() == PYSPARK
    assert Path(sys.executable) != old_python
