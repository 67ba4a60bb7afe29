"""What a backfill in many batches costs beside one `INSERT … SELECT` of the same rows.

The source is not sorted by the checkpoint, so that no file can be skipped for any batch. Both write to empty tables in
the same Spark session, in turns, after one round each that does not count. Planning is included. The difference between
the numbers of batches gives what one more batch costs.

    .venv/bin/python bench/backfill.py [--rows 10000000] [--rounds 3] [--batches 20 100]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from lakewarden import Warden
from lakewarden.features.lake.init import Init

COLUMNS = "id BIGINT, customer BIGINT, amount DOUBLE, city STRING, note STRING, at TIMESTAMP"
ROWS = """
    INSERT INTO main.bench.source
    SELECT pmod(id * 7919, {rows}), pmod(hash(id), 100000), rand(7) * 1000, CONCAT('city ', pmod(id, 1000)),
           CONCAT('note ', id), timestamp_seconds(1700000000 + pmod(id * 31, 10000000))
    FROM range(0, {rows}, 1, 8)
"""
SELECT = "SELECT id, customer, amount * 2, upper(city), note, at FROM {db}.source"
LIMITS = {20: 1.5, 100: 2.0}


class Bench:
    """A source, and ways to copy it."""

    def __init__(self, folder: Path, rows: int) -> None:
        Init(directory=folder).make()
        config = folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings |= {"spark": {"master": "local[2]", "memory": "4g"}, "backfills": {"folders": ["backfills"]}}
        config.write_text(yaml.safe_dump(settings))
        self.folder, self.rows, self.made = folder / "backfills", rows, 0
        self.folder.mkdir()
        self.warden = Warden.open(folder)
        self.sql = self.warden.ground.spark.sql
        self.sql("CREATE NAMESPACE main.bench")
        self.sql(f"CREATE TABLE main.bench.source ({COLUMNS}) USING iceberg")
        self.sql(ROWS.format(rows=rows))

    def target(self) -> str:
        self.made += 1
        self.sql(f"CREATE TABLE main.bench.target{self.made} ({COLUMNS}) USING iceberg")
        return f"target{self.made}"

    def insert(self) -> float:
        target = self.target()
        began = time.monotonic()
        self.sql(f"INSERT INTO main.bench.{target} {SELECT.format(db='main.bench')}")
        return time.monotonic() - began

    def backfill(self, batches: int) -> float:
        target, version = self.target(), str(self.made)
        meta: dict[str, Any] = {"migration_version": version, "checkpoint_columns": ["id"]}
        meta["batch_size"] = -(-self.rows // batches)
        (self.folder / f"{version}_copy.backfill.meta").write_text(json.dumps(meta))
        where = "WHERE id > {checkpoint_id} ORDER BY id LIMIT {batch_size}"
        (self.folder / f"{version}_copy.backfill.sql").write_text(f"INSERT INTO {{db}}.{target} {SELECT} {where}")
        self.warden.backfill.register(database="bench", version=version)
        began = time.monotonic()
        result = self.warden.backfill.run(database="bench", version=version).apply().result
        took = time.monotonic() - began
        if result["rows_written"] != self.rows or abs(result["batches"] - batches) > batches // 10:
            raise SystemExit(f"not what was asked for: {result}")
        return took


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--batches", type=int, nargs="+", default=[20, 100])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder) / "lake", given.rows)
        inserts: list[float] = []
        backfills: dict[int, list[float]] = {batches: [] for batches in given.batches}
        for number in range(given.rounds + 1):
            took = {0: bench.insert()} | {batches: bench.backfill(batches) for batches in backfills}
            if number:
                inserts.append(took[0])
                for batches, times in backfills.items():
                    times.append(took[batches])
    usual, failed = statistics.median(inserts), False
    print(f"{given.rows:,} rows, one INSERT … SELECT: {usual:.1f} s")
    medians = {batches: statistics.median(times) for batches, times in backfills.items()}
    for batches, median in medians.items():
        limit = LIMITS.get(batches)
        failed |= limit is not None and median > limit * usual
        print(f"{batches:>5} batches: {median:.1f} s, {median / usual:.2f}x{f' (at most {limit}x)' if limit else ''}")
    if len(medians) > 1:
        (few, least), (many, most) = min(medians.items()), max(medians.items())
        print(f"one more batch: {1000 * (most - least) / (many - few):.0f} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
