"""How long `table health` takes over very many tables: a whole process, from nothing to the printed answer, no JVM.

.venv/bin/python bench/health.py [--tables 400] [--appends 3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from lakewarden import Warden
from lakewarden.features.lake.init import Init

ROWS = pa.table({"id": [1, 2], "city": ["Basel", "Bern"]})


def build(folder: Path, tables: int, appends: int) -> None:
    """Tables with files, manifests and metadata of their own: nothing that was read for one helps with another."""
    Init(directory=folder).make()
    with Warden.open(folder) as warden:
        catalog = warden.ground.catalogs.get("main")
        catalog.create_namespace("bench")
        for number in range(tables):
            table = catalog.create_table(f"bench.t{number:04}", ROWS.schema)
            for _ in range(appends):
                table.append(ROWS)


def ask(folder: Path, tables: int) -> float:
    command = [sys.executable, "-m", "lakewarden", "--config", str(folder), "table", "health", "--worst", str(tables)]
    began = time.perf_counter()
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    took = time.perf_counter() - began
    assert len(json.loads(done.stdout)) == tables
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--appends", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder, given.tables, given.appends)
        rounds = [ask(folder, given.tables) for _ in range(given.rounds)]
    print(
        f"table health of {given.tables} tables with {given.appends} versions each: "
        f"{statistics.median(rounds):.1f} s (of {', '.join(f'{took:.1f}' for took in rounds)})"
    )


if __name__ == "__main__":
    main()
