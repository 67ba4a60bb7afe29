"""How fast `compaction compact` is beside Iceberg's own `rewrite_data_files`, and what either makes of the files.

Both rewrite the same table from the same state, in one Spark session: after each round the table is rolled back.
Iceberg runs with its defaults; a second line gives it our file size as its target, so that it too may use every core.
At the end each contender's last files are scanned, in turns: column by column, and all columns at once.

    .venv/bin/python bench/compaction.py [--files 200] [--rows 10000000] [--rounds 3] [--days 1]

With `--days 35 --files 2035 --rows 40000000` the table has a partition a day, and each is a group of its own for either
contender: then Iceberg uses every core by default, and the second line is left out.
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
_SCANS = 7
ROWS = """
    SELECT id, CAST(pmod(hash(id), 1000000) AS INT) AS customer, CONCAT('city-', pmod(hash(id, 1), 50)) AS city,
           rand(7) * 1000 AS amount, timestamp_seconds(1700006400 + id * {seconds}) AS at,
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
    snapshot: int = 0
    timed: dict[str, list[float]] = field(default_factory=dict)
    lookup: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def scans(self) -> dict[str, float]:
        """Seconds to read each column, and all of them."""
        return {columns: statistics.median(times) for columns, times in self.timed.items()}


class Bench:
    def __init__(self, folder: Path, files: int, rows: int, days: int) -> None:
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
            f"note STRING, reference STRING) USING iceberg {'PARTITIONED BY (days(at))' if days > 1 else ''} "
            "TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
        )
        seconds = 3 if days == 1 else days * 86400 / rows
        made = ROWS.format(start=0, end=rows, files=max(files - days + 1, 1), seconds=seconds)
        self.spark.sql(f"INSERT INTO main.{TABLE} {made}").collect()
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

    def scan(self, contenders: list[Contender], times: int) -> None:
        """Read the files that each contender made, in turns: what slows the machine down then slows all of them."""
        columns = self.spark.session().table(f"main.{TABLE}").columns
        read = {**{column: [column] for column in columns}, "all columns": columns}
        for _ in range(times):
            for name, some in read.items():
                for contender in contenders:
                    rows = self.spark.session().read.option("versionAsOf", contender.snapshot).table(f"main.{TABLE}")
                    took = _seconds(rows.select(*some).write.format("noop").mode("overwrite").save)
                    contender.timed.setdefault(name, []).append(took)

    def lookup(self) -> float:
        rows = self.spark.session().table(f"main.{TABLE}").where(f"id = {self.rows // 3}")
        return statistics.median(_seconds(rows.collect) for _ in range(3))

    def ours(self, verify: str) -> None:
        self.warden.compaction.compact(TABLE, verify=verify).apply()

    def icebergs(self, options: str = "") -> None:
        self.spark.sql(f"CALL main.system.rewrite_data_files(table => '{TABLE}'{options})").collect()


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _contenders(bench: Bench, bytes_before: int, is_one_group: bool) -> list[Contender]:
    same_size = f", options => map('target-file-size-bytes', '{bytes_before // 2}')"
    contenders = [
        Contender("lakewarden, verify counts", lambda: bench.ours("counts")),
        Contender("lakewarden, verify full", lambda: bench.ours("full")),
        Contender("rewrite_data_files", bench.icebergs),
    ]
    if is_one_group:
        contenders.append(Contender("rewrite_data_files, two files", lambda: bench.icebergs(same_size)))
    return contenders


def _run(bench: Bench, contenders: list[Contender], rounds: int) -> None:
    content = bench.content()
    for number in range(rounds + 1):
        for contender in contenders:
            took = _seconds(contender.compact)
            contender.files, contender.bytes = bench.size()
            assert bench.content() == content, f"{contender.name} changed rows"
            if number:  # the first round is for warming up
                contender.seconds.append(took)
            if number == rounds:
                contender.snapshot, contender.lookup = int(bench.table.current_snapshot().snapshot_id), bench.lookup()
            bench.back()
    bench.scan(contenders, _SCANS)


def _print(contenders: list[Contender], rounds: int) -> None:
    for c in contenders:
        after = f"{c.files:3} files {c.bytes / 1e6:6.0f} MB   lookup {c.lookup:.2f} s"
        print(f"{c.name:30} {c.median:6.2f} s (median of {rounds})   {after}")
        print("    scan: " + "  ".join(f"{column} {took:.2f} s" for column, took in c.scans.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--days", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place) / "lake", given.files, given.rows, given.days)
        before, start = bench.size(), Contender("before", bench.back, snapshot=bench.start)
        bench.scan([start], 2)  # for a warm engine, too
        print(f"{before[0]} files, {given.rows:,} rows, {before[1] / 1e6:.0f} MB; lookup {bench.lookup():.2f} s")
        print("    scan: " + "  ".join(f"{column} {took:.2f} s" for column, took in start.scans.items()))
        contenders = _contenders(bench, before[1], given.days == 1)
        _run(bench, contenders, given.rounds)
        bench.warden.close()
    _print(contenders, given.rounds)
    ours, full, theirs, *two = contenders
    ratio, size = theirs.median / ours.median, ours.bytes / theirs.bytes
    print(f"times faster, counts {ratio:.2f} (at least 3); full {theirs.median / full.median:.2f}")
    for other in two:
        print(f"times faster than with two files, counts {other.median / ours.median:.2f}")
    print(f"size beside Iceberg's {size:.3f} (at most 1)")
    scans = {column: ours.scans[column] / took for column, took in theirs.scans.items()}
    print("scan time beside Iceberg's: " + "  ".join(f"{column} {share:.2f}" for column, share in scans.items()))
    print(f"scan of all columns beside Iceberg's {scans['all columns']:.2f} (at most 1.1)")
    sys.exit(ratio < 3 or size > 1 or scans["all columns"] > 1.1)


if __name__ == "__main__":
    main()
