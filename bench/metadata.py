"""How long `version list` takes on a table with a thousand snapshots, beside the same question asked of Spark.

Both sides are whole processes, from nothing to the printed answer, on the same table in the same run.

    .venv/bin/python bench/metadata.py [--snapshots 1000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from lakewarden import Warden
from lakewarden.features.lake.init import Init

THROUGH_SPARK = """
import sys
from lakewarden import Warden
spark = Warden.open(sys.argv[1]).ground.spark.session()
rows = spark.sql(
    "SELECT s.snapshot_id, s.committed_at, s.operation, s.summary, collect_list(r.name) AS refs "
    "FROM main.bench.orders.snapshots s LEFT JOIN main.bench.orders.refs r ON s.snapshot_id = r.snapshot_id "
    "GROUP BY ALL ORDER BY s.committed_at DESC"
).collect()
print(len(rows))
"""


def build(folder: Path, snapshots: int) -> None:
    """A table with one append whose history repeats that snapshot many times; creating it is not measured."""
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    Init(directory=folder).make()
    with Warden.open(folder) as warden:
        catalog = warden.ground.catalogs.get("main")
        catalog.create_namespace("bench")
        table = catalog.create_table("bench.orders", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [0]}))
        last, updates = table.current_snapshot(), []
        for number in range(1, snapshots):
            later = {
                "snapshot_id": last.snapshot_id + 1,
                "parent_snapshot_id": last.snapshot_id,
                "sequence_number": number + 1,
                "timestamp_ms": last.timestamp_ms + 60_000,
            }
            last = last.model_copy(update=later)
            updates.append(AddSnapshotUpdate(snapshot=last))
        head = {"ref-name": "main", "type": "branch", "snapshot-id": last.snapshot_id}
        catalog.commit_table(table, (), (*updates, SetSnapshotRefUpdate.model_validate(head)))


def seconds(command: list[str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "lake"
        began = time.perf_counter()
        build(folder, given.snapshots)
        print(f"a table with {given.snapshots} snapshots, made in {time.perf_counter() - began:.0f} s")

        listing = ["version", "list", "bench.orders", "--limit", str(given.snapshots), "--json"]
        ours = [sys.executable, "-m", "lakewarden", "--config", str(folder), *listing]
        theirs = [sys.executable, "-c", THROUGH_SPARK, str(folder)]
        seconds(ours), seconds(theirs)  # both once before: the disk's cache, and the jars
        fast, slow = [], []
        for _ in range(given.rounds):  # side by side, so that both meet the same machine
            took, out = seconds(ours)
            assert out.count('"snapshot_id"') == given.snapshots
            fast.append(took)
            took, out = seconds(theirs)
            assert int(out) == given.snapshots
            slow.append(took)
    ours_median, theirs_median = statistics.median(fast), statistics.median(slow)
    print(f"lakewarden version list        {ours_median:6.2f} s   (median of {given.rounds})")
    print(f"the same through fresh Spark   {theirs_median:6.2f} s")
    print(f"ratio                          {ours_median / theirs_median:6.3f}   (at most 0.2)")
    sys.exit(ours_median >= 2 or ours_median / theirs_median > 0.2)


if __name__ == "__main__":
    main()
