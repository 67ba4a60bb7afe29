"""How fast `compaction compact` is beside Iceberg's own `rewrite_data_files`, and what either makes of the files.

Both rewrite the same table from the same state, in one Spark session: after each round the table is rolled back.
Iceberg runs as it comes; a second line gives it our file size as its target, so that it too may use every core.

    .venv/bin/python bench/compaction.py [--files 200] [--rows 10000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lakewarden import Warden
from lakewarden.features.lake.init import Init

TABLE = "bench.orders"
ROWS = """
    SELECT id, CAST(pmod(hash(id), 1000000) AS INT) AS customer, CONCAT('city-', pmod(hash(id, 1), 50)) AS city,
           rand(7) * 1000 AS amount, timestamp_seconds(1700000000 + id * 3) AS at,
           CONCAT('note ', pmod(hash(id, 2), 20000)) AS note, lower(hex(xxhash64(id, 3))) AS reference
    FROM range({start}, {end}, 1, {files})
"""


@dataclass
class Contender:
    """One way to compact, and what it came to in each round."""

    name: str
    compact: Callable[[], None]
    seconds: list[float] = field(default_factory=list)
    bytes: int = 0
    files: int = 0
    scan: float = 0.0
    lookup: float = 0.0


class Bench:
    def __init__(self, folder: Path, files: int, rows: int) -> None:
        Init(directory=folder).make()
        config = folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["spark"] = {"master": "local[2]", "memory": "6g", "conf": {"spark.sql.shuffle.partitions": 4}}
        config.write_text(yaml.safe_dump(settings))
        self.warden = Warden.open(folder)
        self.spark = self.warden.ground.spark
        self.spark.sql("CREATE NAMESPACE main.bench")
        self.spark.sql(
            f"CREATE TABLE main.{TABLE} (id BIGINT, customer INT, city STRING, amount DOUBLE, at TIMESTAMP, "
            "note STRING, reference STRING) USING iceberg"
        )
        self.spark.sql(f"INSERT INTO main.{TABLE} {ROWS.format(start=0, end=rows, files=files)}").collect()
        self.rows = rows
        self.start = int(self.table.current_snapshot().snapshot_id)

    @property
    def table(self) -> Any:
        return self.warden.ground.tables.load(TABLE)

    def back(self) -> None:
        self.spark.sql(f"CALL main.system.set_current_snapshot('{TABLE}', {self.start}L)").collect()

    def size(self) -> tuple[int, int]:
        found = self.warden.ground.files.of(self.table, self.table.current_snapshot()).data
        return len(found), sum(file.bytes for file in found)

    def content(self) -> Any:
        row = "xxhash64(id, customer, city, amount, at, note, reference)"
        sums = f"COUNT(*), SUM(id), SUM(CAST({row} AS DECIMAL(38, 0)))"
        return self.spark.sql(f"SELECT {sums} FROM main.{TABLE}").collect()[0]  # noqa: S608 - constants

    def query_times(self) -> tuple[float, float]:
        rows = self.spark.session().table(f"main.{TABLE}")
        scan = _seconds(lambda: rows.agg({"amount": "sum", "note": "max"}).collect())
        return scan, _seconds(lambda: rows.where(f"id = {self.rows // 3}").collect())

    def ours(self, verification: str) -> None:
        self.warden.compaction.compact(TABLE, verification=verification).apply()

    def icebergs(self, options: str = "") -> None:
        self.spark.sql(f"CALL main.system.rewrite_data_files(table => '{TABLE}'{options})").collect()


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place) / "lake", given.files, given.rows)
        before, content = bench.size(), bench.content()
        bench.query_times()  # both once before, for a warm engine
        scan, lookup = bench.query_times()
        print(f"{before[0]} files, {given.rows:,} rows, {before[1] / 1e6:.0f} MB", end="; ")
        print(f"full scan {scan:.2f} s, lookup {lookup:.2f} s")
        same_size = f", options => map('target-file-size-bytes', '{before[1] // 2}')"
        contenders = [
            Contender("lakewarden, verify counts", lambda: bench.ours("counts")),
            Contender("lakewarden, verify full", lambda: bench.ours("full")),
            Contender("rewrite_data_files", bench.icebergs),
            Contender("rewrite_data_files, two files", lambda: bench.icebergs(same_size)),
        ]
        for number in range(given.rounds + 1):
            for contender in contenders:
                took = _seconds(contender.compact)
                contender.files, contender.bytes = bench.size()
                assert bench.content() == content, f"{contender.name} changed rows"
                if number:  # the first round is for warming up
                    contender.seconds.append(took)
                if number == given.rounds:
                    contender.scan, contender.lookup = bench.query_times()
                bench.back()
        bench.warden.close()
    medians = {contender.name: statistics.median(contender.seconds) for contender in contenders}
    for c in contenders:
        after = f"{c.files:3} files {c.bytes / 1e6:6.0f} MB   scan {c.scan:.2f} s  lookup {c.lookup:.2f} s"
        print(f"{c.name:30} {medians[c.name]:6.2f} s (median of {given.rounds})   {after}")
    ours, full, theirs, two = contenders
    ratio = medians[theirs.name] / medians[ours.name]
    print(f"times faster, counts {ratio:.2f} (at least 3); full {medians[theirs.name] / medians[full.name]:.2f}")
    print(f"times faster than with two files, counts {medians[two.name] / medians[ours.name]:.2f}")
    print(f"size beside Iceberg's {ours.bytes / theirs.bytes:.3f} (at most 1)")
    sys.exit(ratio < 3 or ours.bytes > theirs.bytes)


if __name__ == "__main__":
    main()
