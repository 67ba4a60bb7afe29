"""How fast two versions are compared: against the joins that people write for it, and against two libraries.

The table has ten million rows in forty files. Three changes are measured, each in one Spark session, medians of three:

- *few files*: 1 % of the rows changed, all in two files, and as many appended;
- *compacted*: the same, and then the whole table compacted;
- *scattered*: rows changed in every file.

Beside ours stand a full outer join of both versions on key and row hash, as most teams write it, and EXCEPT ALL both
ways. All must count the same rows. At one million rows datacompy and the diff of pyspark-extension are measured too, if
they are installed. Exit code 1 if ours is less than 6 times (compacted: 3 times) as fast as the join, less than 30
times as fast as EXCEPT ALL, or takes more than 1.1 times as long as the join for scattered changes.

    .venv/bin/python bench/compare.py [--rows 10000000]
"""

# ruff: noqa: S608 - all statements are made of constants
from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lakewarden import Warden
from lakewarden.features.lake.init import Init

FILES = 40
ROUNDS = 3
COLUMNS = ("id", "customer", "city", "amount", "quantity", "at", "note")
SELECT = (
    "id, concat('customer-', lpad(id % 50000, 6, '0')) customer, element_at(array('Bern', 'Ulm', 'Graz', 'Lyon'), "
    "int(id % 4) + 1) city, round(rand(7) * 1000, 2) amount, int(id % 97) quantity, "
    "timestamp_seconds(1700000000 + id) at, concat('note ', id) note"
)
Counts = tuple[int, int, int]


def build(warden: Warden, rows: int) -> None:
    """One table for each kind of change; `v1` is the version before it."""
    sql = warden.ground.spark.sql
    warden.ground.catalogs.get("main").create_namespace("bench")
    each = rows // FILES
    for name in ("few", "compacted", "scattered"):
        sql(f"CREATE TABLE main.bench.{name} (id BIGINT, customer STRING, city STRING, amount DOUBLE, quantity INT, "
            "at TIMESTAMP, note STRING) USING iceberg TBLPROPERTIES ('format-version' = '2', "
            "'write.update.mode' = 'copy-on-write', 'write.distribution-mode' = 'none')")  # fmt: skip
        sql(f"INSERT INTO main.bench.{name} SELECT {SELECT} FROM range(0, {rows}, 1, {FILES})")
        warden.version.tag(f"bench.{name}", "v1").apply()
    changed = rows // 100
    for name in ("few", "compacted"):
        sql(
            f"UPDATE main.bench.{name} SET amount = amount + 1 WHERE id < {2 * each} AND id % {2 * each // changed} = 0"
        )
        sql(f"INSERT INTO main.bench.{name} SELECT {SELECT} FROM range({rows}, {rows + changed}, 1, 1)")
    sql("CALL main.system.rewrite_data_files(table => 'bench.compacted', options => map('rewrite-all', 'true'))")
    sql("UPDATE main.bench.scattered SET amount = amount + 1 WHERE id % 100 = 0")


def ours(warden: Warden, name: str) -> Counts:
    found = warden.compare.data(f"bench.{name}", "v1", key="id")
    return int(found.rows_added or 0), int(found.rows_removed or 0), int(found.rows_changed or 0)


def joined(warden: Warden, name: str) -> Counts:
    """A full outer join on the key, with a hash of all columns."""
    side = f"SELECT id, xxhash64({', '.join(COLUMNS)}) h FROM main.bench.{name}"
    row = warden.ground.spark.sql(
        f"SELECT count_if(a.id IS NULL) added, count_if(b.id IS NULL) removed, count_if(a.h != b.h) changed "
        f"FROM ({side} VERSION AS OF 'v1') a FULL OUTER JOIN ({side}) b ON a.id = b.id"
    ).collect()[0]
    return row["added"], row["removed"], row["changed"]


def excepted(warden: Warden, name: str) -> Counts:
    """EXCEPT ALL both ways: rows that differ, without knowing which belong together."""
    sql = warden.ground.spark.sql
    old, new = f"SELECT * FROM main.bench.{name} VERSION AS OF 'v1'", f"SELECT * FROM main.bench.{name}"
    removed = sql(f"{old} EXCEPT ALL {new}").count()
    return sql(f"{new} EXCEPT ALL {old}").count(), removed, 0


def timed(work: Callable[[], Counts], rounds: int = ROUNDS) -> tuple[float, Counts]:
    took, found = [], work()  # the first run warms up
    for _ in range(rounds):
        start = time.perf_counter()
        found = work()
        took.append(time.perf_counter() - start)
    return statistics.median(took), found


def libraries(warden: Warden, rows: int) -> None:
    """Ratios to libraries that compare two data frames, if they are installed."""
    name = "bench.small"
    sql = warden.ground.spark.sql
    sql(f"CREATE TABLE main.{name} USING iceberg TBLPROPERTIES ('write.update.mode' = 'copy-on-write') "
        f"AS SELECT {SELECT} FROM range(0, {rows}, 1, 8)")  # fmt: skip
    warden.version.tag(name, "v1").apply()
    sql(f"UPDATE main.{name} SET amount = amount + 1 WHERE id < {rows // 8} AND id % 12 = 0")
    took, _ = timed(lambda: ours(warden, "small"))
    print(f"\n{rows:,} rows: ours {took:.2f} s")
    for label, compare in (("datacompy", _datacompy), ("pyspark-extension", _extension)):
        try:
            other, _ = timed(lambda compare=compare: compare(warden, name), 1)
            print(f"  {label:<20}{other:8.2f} s  {other / took:6.1f} times ours")
        except ImportError:
            print(f"  {label:<20} is not installed")


def _datacompy(warden: Warden, name: str) -> Counts:
    import datacompy  # type: ignore[import-not-found,unused-ignore]

    old, new = warden.arrow(f"{name}@v1").to_pandas(), warden.arrow(name).to_pandas()
    found = datacompy.PandasCompare(old, new, join_columns="id")
    return len(found.df2_unq_rows), len(found.df1_unq_rows), len(found.all_mismatch())


def _extension(warden: Warden, name: str) -> Counts:
    from gresearch.spark.diff import diff  # type: ignore[import-not-found,unused-ignore]

    found = diff(warden.dataframe(f"{name}@v1"), warden.dataframe(name), "id").groupBy("diff").count().collect()
    kinds = {row["diff"]: row["count"] for row in found}
    return kinds.get("I", 0), kinds.get("D", 0), kinds.get("C", 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    missed = []
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        Init(directory=Path(folder)).make()
        with Warden.open(folder) as warden:
            build(warden, rows)
            print(f"{rows:,} rows in {FILES} files; seconds are medians of {ROUNDS}")
            for name, times, than_except in (("few", 6.0, 30.0), ("compacted", 3.0, 0.0), ("scattered", 1 / 1.1, 0.0)):
                mine, counts = timed(lambda name=name: ours(warden, name))
                join, same = timed(lambda name=name: joined(warden, name))
                print(f"{name:<12} ours {mine:7.2f} s   join {join:7.2f} s   {join / mine:6.1f} times   {counts}")
                if counts != same:
                    missed.append(f"{name}: ours counts {counts}, the join {same}")
                if join / mine < times:
                    missed.append(f"{name}: {join / mine:.2f} times as fast as the join, not {times:.2f}")
                if than_except:
                    slow, rough = timed(lambda name=name: excepted(warden, name), 1)
                    print(f"{'':<12} EXCEPT ALL both ways {slow:7.2f} s   {slow / mine:6.1f} times")
                    if rough[:2] != (counts[0] + counts[2], counts[1] + counts[2]):
                        missed.append(f"{name}: EXCEPT ALL counts {rough}")
                    if slow / mine < than_except:
                        missed.append(f"{name}: {slow / mine:.1f} times as fast as EXCEPT ALL, not {than_except:.0f}")
            libraries(warden, min(rows, 1_000_000))
    for reason in missed:
        print(f"missed: {reason}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
