"""View sets: how fast partitions are listed, and what it costs to write them.

*Lists*: `viewset partitions` and `viewset incompatible` over very many partitions, half of them of a former schema:
whole processes, from nothing to the printed answer. No JVM. The metadata is real; the files do not exist, since nothing
opens them. Exit code 1 if one takes more than 5 seconds.

*Writing*: `viewset materialize` of 100 partitions, planning included, against one INSERT … SELECT of the same rows into
a table that is partitioned alike, in one Spark session; and into a table without partitions. Three kinds of SQL: row by
row, with GROUP BY, and with a window function, which needs a query for each range. Medians of three, in turns. Exit
code 1 if rows cost more than 1.5 times the first INSERT.

    .venv/bin/python bench/viewset.py [--partitions 100000] [--rows 5000000] [--only lists|writing]
"""

# ruff: noqa: S608 - all statements are made of constants
from __future__ import annotations

import argparse
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden import Warden
from lakewarden.features.lake.init import Init

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

ROUNDS = 3
MOST_SECONDS, MOST_TIMES = 5.0, 1.5
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = 100
FILES = 20
_PER_COMMIT = 25_000
RANGE = "inserted_at >= {begin} AND inserted_at < {end}"
DEFINITION = {"source": "raw.logs", "insert_time": "inserted_at", "event_time": "time"}
KINDS = {
    "rows": f"SELECT time, process_id, level, msg FROM raw.logs WHERE {RANGE}",
    "groups": "SELECT process_id, level, count(*) AS entries, min(time) AS time, max(length(msg)) AS longest "
    f"FROM raw.logs WHERE {RANGE} GROUP BY process_id, level",
    "windows": f"SELECT time, level, row_number() OVER (PARTITION BY level ORDER BY time) AS nth "
    f"FROM raw.logs WHERE {RANGE}",
}


def logs(warden: Warden, rows: int) -> None:
    """A hundred hours of log entries, in files that each cover some hours."""
    sql = warden.ground.spark.sql
    warden.ground.catalogs.get("main").create_namespace_if_not_exists("raw")
    seconds = HOURS * 3600
    sql("CREATE TABLE main.raw.logs (inserted_at TIMESTAMP, time TIMESTAMP, process_id STRING, level INT, msg STRING, "
        "other STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")  # fmt: skip
    sql("INSERT INTO main.raw.logs SELECT timestamp_micros("
        f"{int(BEGIN.timestamp())}000000L + id * {seconds * 1_000_000 // rows}L) inserted_at, "
        f"timestamp_seconds({int(BEGIN.timestamp())} + id * {seconds} / {rows} - 5) time, "
        "concat('process-', id % 500) process_id, int(id % 7) level, concat('request ', id * 7919 % 1000003, "
        "' took ', id % 977, ' ms') msg, concat('unused ', id) other "
        f"FROM range(0, {rows}, 1, {FILES})")  # fmt: skip


def writing(rows: int) -> list[str]:
    """Measure every kind of SQL; what is beyond the limit, in words."""
    beyond = []
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        Init(directory=Path(folder)).make()
        with Warden.open(folder) as warden:
            logs(warden, rows)
            print(f"\n{rows:,} source rows, {HOURS} partitions; seconds are medians of {ROUNDS} after a first run")
            heads = f"{'rows':>12}{'materialize':>14}{'INSERT':>10}{'times':>8}{'without partitions':>22}{'times':>8}"
            print(f"{'':10}{heads}")
            for kind, sql in KINDS.items():
                warden.viewset.register({**DEFINITION, "name": kind, "sql": sql}).apply()
                (ours, written), (alike, same), (plain, _) = timed(
                    lambda kind=kind: materialized(warden, kind),
                    lambda kind=kind, sql=sql: inserted(warden, kind, sql, by_partition=True),
                    lambda kind=kind, sql=sql: inserted(warden, kind, sql, by_partition=False),
                )
                times = ours / alike
                print(f"{kind:10}{written:12,}{ours:14.2f}{alike:10.2f}{times:8.2f}{plain:22.2f}{ours / plain:8.2f}")
                if written != same:
                    beyond.append(f"{kind}: {written} rows materialized, {same} inserted")
                if kind == "rows" and times > MOST_TIMES:
                    beyond.append(f"{kind}: {times:.2f} times one INSERT … SELECT, not {MOST_TIMES}")
    return beyond


def materialized(warden: Warden, kind: str) -> Callable[[], int]:
    """What writes all partitions of a view set that has none."""
    until = {"begin": BEGIN.isoformat(), "end": (BEGIN + timedelta(hours=HOURS)).isoformat()}
    if warden.viewset.partitions(kind):
        warden.viewset.retire(kind, **until).apply()
    return lambda: int(warden.viewset.materialize(kind, **until, delta="1h").apply().result["rows"])


def inserted(warden: Warden, kind: str, sql: str, by_partition: bool) -> Callable[[], int]:
    """What writes the same rows by one INSERT … SELECT; with the columns of a partition, or without."""
    run = warden.ground.spark.sql
    bounds = {"begin": BEGIN, "end": BEGIN + timedelta(hours=HOURS)}
    select = sql.format(**{name: f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S}'" for name, at in bounds.items()})
    select = select.replace("raw.logs", "main.raw.logs")
    if by_partition:
        hour = "date_trunc('hour', inserted_at)"
        own = f"'global' view_instance_id, {hour} begin_insert_time, {hour} + INTERVAL 1 HOUR end_insert_time"
        select = select.replace(" FROM", f", {own}, 'x' file_schema_hash, 'x' source_data_hash, now() updated FROM", 1)
        select = select.replace("GROUP BY ", f"GROUP BY {hour}, ").replace("PARTITION BY", f"PARTITION BY {hour},")
    run("DROP TABLE IF EXISTS main.raw.copy")
    layout = "PARTITIONED BY (view_instance_id, begin_insert_time, end_insert_time, file_schema_hash)"
    run(f"CREATE TABLE main.raw.copy USING iceberg {layout if by_partition else ''} "
        f"TBLPROPERTIES ('format-version' = '2') AS SELECT * FROM ({select}) LIMIT 0")  # fmt: skip

    def insert() -> int:
        run(f"INSERT INTO main.raw.copy {select}")
        table = warden.ground.catalogs.get("main").load_table("raw.copy")
        return int(table.current_snapshot().summary["total-records"])  # type: ignore[union-attr]

    return insert


def timed(*ways: Callable[[], Callable[[], int]]) -> list[tuple[float, int]]:
    """The medians of a few runs of each way, in turns, each prepared first; the very first runs warm up."""
    took: list[list[float]] = [[] for _ in ways]
    found = [0 for _ in ways]
    for number in range(ROUNDS + 1):
        for place, prepare in enumerate(ways):
            work = prepare()
            start = time.perf_counter()
            found[place] = work()
            took[place] += [time.perf_counter() - start] if number else []
    return [(statistics.median(each), rows) for each, rows in zip(took, found, strict=True)]


def lists(partitions: int) -> list[str]:
    """Measure questions about very many partitions; what is beyond the limit, in words."""
    beyond = []
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as name:
        folder = Path(name)
        began = time.perf_counter()
        many(folder, partitions)
        print(f"{partitions:,} partitions, made in {time.perf_counter() - began:.0f} s; medians of {ROUNDS}")
        for question, count in (("partitions", len), ("incompatible", _counted)):
            rounds = [asked(folder, question) for _ in range(ROUNDS)]
            took = statistics.median(seconds for seconds, _ in rounds)
            found = count(rounds[0][1])
            print(f"viewset {question:14}{took:8.2f} s   {found:,}")
            if found != (partitions if question == "partitions" else partitions // 2):
                beyond.append(f"viewset {question}: {found} partitions")
            if took > MOST_SECONDS:
                beyond.append(f"viewset {question}: {took:.1f} s, not {MOST_SECONDS}")
    return beyond


def _counted(found: list[dict[str, Any]]) -> int:
    return sum(int(row["partition_count"]) for row in found)


def asked(folder: Path, question: str) -> tuple[float, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "lakewarden", "--config", str(folder), "viewset", question, "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    took = time.perf_counter() - began
    return took, json.loads(done.stdout)


def many(folder: Path, partitions: int) -> None:
    """A view set whose table has so many partitions, half of them of a former schema, and one file each."""
    import pyarrow as pa

    from lakewarden.engine.commit.new_rows import Append
    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.features.viewset.definition import PROPERTY, Definition, columns_of, schema_hash
    from lakewarden.features.viewset.register import _PROPERTIES, _as_iceberg, _spec
    from lakewarden.lifecycle.basics import Stamp
    from lakewarden.warden import Workbench

    moment = pa.timestamp("us", tz="UTC")
    names = [("time", moment), ("process_id", pa.string()), ("level", pa.int32()), ("msg", pa.string())]
    schema = _as_iceberg(pa.schema(names))
    definition = Definition.model_validate({**DEFINITION, "name": "entries", "sql": KINDS["rows"]})
    Init(directory=folder).make()
    with Warden.open(folder) as warden:
        catalog = warden.ground.catalogs.get("main")
        catalog.create_namespace("viewsets")
        properties = {**_PROPERTIES, PROPERTY: definition.model_dump_json()}
        table = catalog.create_table("viewsets.entries", schema, partition_spec=_spec(schema), properties=properties)
        hashes = (schema_hash(columns_of(schema), None), "0123456789abcdef")
        for start in range(0, partitions, _PER_COMMIT):
            numbers = range(start, min(start + _PER_COMMIT, partitions))
            files = (_data_file(table, number // 2, hashes[number % 2]) for number in numbers)
            stamp = Stamp("op-20260101-000000-000000", f"a{start}", "bench")
            bench = Workbench(warden.ground, stamp, lambda: None, lambda *_: None)
            bench.commits.publish(
                Append("viewsets.entries", str(table.metadata.table_uuid), tuple(AddedFile(file, 0) for file in files))
            )


def _data_file(table: Table, number: int, schema_hash: str) -> DataFile:
    """The file of a partition, with the counts and bounds that Spark records for each column."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    begin, hour = int(BEGIN.timestamp() + 3600 * number) * 1_000_000, 3_600_000_000
    folder = f"view_instance_id=global/begin_insert_time={begin}/end_insert_time={begin + hour}"
    first, last, digest = struct.pack("<q", begin), struct.pack("<q", begin + hour), f"{number:016x}".encode()
    columns = range(1, 11)
    own = {5: b"global", 6: first, 7: last, 8: schema_hash.encode(), 9: digest, 10: first}
    lower = {1: first, 2: b"process-000", 3: b"\0\0\0\0", 4: b"request 12 took", **own}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.metadata.location}/data/{folder}/file_schema_hash={schema_hash}/00000-{number}-00001.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record("global", begin, begin + hour, schema_hash),
        record_count=50_000 + number,
        file_size_in_bytes=1_000_000 + number,
        column_sizes=dict.fromkeys(columns, 100_000),
        value_counts=dict.fromkeys(columns, 50_000 + number),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds={**lower, 1: last, 2: b"process-499", 3: b"\6\0\0\0", 4: b"request 99 took"},
        split_offsets=[4],
        sort_order_id=0,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--only", choices=("lists", "writing"))
    given = parser.parse_args()
    beyond = lists(given.partitions) if given.only != "writing" else []
    beyond += writing(given.rows) if given.only != "lists" else []
    for reason in beyond:
        print(f"missed: {reason}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
