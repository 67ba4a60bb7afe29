"""One action that publishes rows, in a process that may be killed: run again under the same stamp, it is the same one.

It does what a feature would: stage rows or write files, publish, and tidy up once it is done.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq

from lakewarden import Warden
from lakewarden.engine.catalog.snapshots import stamped
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.errors import StalePlan
from lakewarden.lifecycle.basics import Stamp
from lakewarden.lifecycle.failpoints import reach
from lakewarden.warden import Workbench
from tests.engine.new_files import new_file, sales

TABLE = "main.shop.sales"
ROWS = 10
_TRIES = 40


def ids_of(number: int) -> range:
    """The rows that an action appends: they are nobody else's."""
    return range(1_000_000 + number * 1000, 1_000_000 + number * 1000 + ROWS)


def act(folder: str, number: int, kind: str) -> NoReturn:
    """Run an action to its end, as a process of its own."""
    with Warden.open(Path(folder)) as warden:
        bench = _bench(warden, number)
        table = bench.tables.load(TABLE)
        if stamped(table, bench.stamp) is None:
            {"append": _append, "overwrite": _overwrite, "stage": _stage}[kind](bench, number)
        reach("acted")
        bench.sweep(TABLE)
    os._exit(0)


def _bench(warden: Warden, number: int) -> Workbench:
    stamp = Stamp(f"op-20261115-101112-{number:06x}", f"{number:012x}", "soak")
    return Workbench(warden.ground, stamp, lambda: None, lambda *_: None)


def _append(bench: Workbench, number: int) -> None:
    table = bench.tables.load(TABLE)
    added = new_file(table, sales(ids_of(number)), bench.stamp)
    reach("file.written")
    bench.commits.publish(Append(TABLE, str(table.metadata.table_uuid), (added,)))


def _stage(bench: Workbench, number: int) -> None:
    ids = ids_of(number)
    rows = "id, 'Oslo' AS city, CAST(IF(id % 3 = 0, double('NaN'), id / 2) AS DOUBLE) AS amount"
    query = f"SELECT {rows} FROM range({ids.start}, {ids.stop}, 1, 2)"
    staged = bench.staging.stage(TABLE, lambda session: session.sql(query))
    bench.commits.publish(Append(TABLE, str(bench.tables.load(TABLE).metadata.table_uuid), staged=staged))


def _overwrite(bench: Workbench, number: int) -> None:
    """Replace a file by one with the same ids, of which all amounts are -1; where others were quicker, another one."""
    for _ in range(_TRIES):
        table = bench.tables.load(TABLE)
        live = bench.files.of(table, table.current_snapshot())
        whole = sorted(path for path, file in live.by_path.items() if not file.deletes)
        if not whole:
            time.sleep(0.5)
            continue
        path = whole[number % len(whole)]
        try:
            rows = _rows(table, path)
            added = new_file(table, [{**row, "amount": -1.0} for row in rows], bench.stamp)
            reach("file.written")
            change = Overwrite(TABLE, str(table.metadata.table_uuid), (added,), removed={path: frozenset()})
            bench.commits.publish(change)
            return
        except StalePlan:
            continue
    raise AssertionError("others were quicker each time")


def _rows(table: Any, path: str) -> list[dict[str, Any]]:
    with table.io.new_input(path).open() as stream:
        found = pq.read_table(stream).to_pylist()
    return [{**row, "amount": math.nan if row["amount"] is None else row["amount"]} for row in found]
