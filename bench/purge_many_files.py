"""What a purge costs in a table of many small files, few of which hold the key: seconds for plan, erase and proof.

Bounds rule no file out, so each has to be opened: by the search for the key, and by the proof, which lists and reads
all that is stored by itself. Files are written in this process, so no Spark is needed. Seconds of work are of this
process alone, and mean something on a busy machine too.

    .venv/bin/python bench/purge_many_files.py [--files 10000] [--holding 10] [--profile FOLDER]
"""

from __future__ import annotations

import argparse
import cProfile
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from lakewarden import Warden
from lakewarden.features.lake.init import Init
from lakewarden.lifecycle.failpoints import when

SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={b"PARQUET:field_id": str(number).encode()})
        for number, (name, kind) in enumerate([("id", pa.int64()), ("email", pa.string()), ("city", pa.string())], 1)
    ]
)
TABLE, GONE = "bench.people", "person-gone@example.org"
ROWS = 8


def made(warden: Warden, folder: Path, files: int, holding: int) -> None:
    """A table of small files with people from all over the alphabet, some with the one who is to be erased."""
    catalog = warden.ground.catalogs.get("main")
    catalog.create_namespace("bench")
    table = catalog.create_table(TABLE, SCHEMA)
    data = folder / "lake/warehouse/bench/people/data"
    data.mkdir(parents=True, exist_ok=True)
    every = max(files // holding, 1)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number in range(files):
            emails = [f"{'az'[row % 2]}{number * ROWS + row}@example.org" for row in range(ROWS)]
            if number % every == 0:
                emails[3] = GONE
            ids = list(range(number * ROWS, number * ROWS + ROWS))
            path = data / f"{number:06}.parquet"
            pq.write_table(pa.table({"id": ids, "email": emails, "city": ["Ulm"] * ROWS}, schema=SCHEMA), path)
            append.append_data_file(entry(path, ids, emails))


def entry(path: Path, ids: list[int], emails: list[str]) -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path.as_uri(),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=ROWS,
        file_size_in_bytes=path.stat().st_size,
        value_counts=dict.fromkeys((1, 2, 3), ROWS),
        null_value_counts=dict.fromkeys((1, 2, 3), 0),
        lower_bounds={1: min(ids).to_bytes(8, "little"), 2: min(emails).encode(), 3: b"Ulm"},
        upper_bounds={1: max(ids).to_bytes(8, "little"), 2: max(emails).encode(), 3: b"Ulm"},
    )
    file.spec_id = 0
    return file


class Clock:
    """Seconds of each step: on the wall, and of this process's own work."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[float, float]] = {}
        self._begun = (time.perf_counter(), time.process_time())

    def step(self, name: str) -> None:
        now = (time.perf_counter(), time.process_time())
        self.steps[name] = (now[0] - self._begun[0], now[1] - self._begun[1])
        self._begun = (time.perf_counter(), time.process_time())


@contextmanager
def profiled(to: Path | None) -> Iterator[Callable[[str], None]]:
    """Keep a profile of the steps, where that is asked for. Threads' work is not in it."""
    if to is None:
        yield lambda name: None
        return
    to.mkdir(parents=True, exist_ok=True)
    profile = cProfile.Profile()
    profile.enable()

    def ended(name: str) -> None:
        profile.dump_stats(to / f"{name}.pstats")

    yield ended
    profile.disable()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--holding", type=int, default=10)
    parser.add_argument("--profile", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Init(directory=folder).make()
        with Warden.open(folder) as warden:
            made(warden, folder, asked.files, asked.holding)
            warden.erasure.request(TABLE, key="email", value=[GONE], look=False)
            with profiled(asked.profile) as ended:
                clock = Clock()
                planned = warden.erasure.purge(TABLE)
                clock.step("plan")
                ended("plan")
                when("purge.recorded", lambda: (clock.step("erase"), ended("erase")))
                result = planned.apply().result
                clock.step("proof")
                ended("proof")
    assert (result["rows_dropped_by_tombstones"], result["requests_closed"]) == (asked.holding, 1), result
    print(f"{asked.files:,} files, {asked.holding} with the key; {result['objects_read']:,} objects read as proof")
    print(f"{'':8}{'seconds':>9}{'of work':>9}")
    for step, (wall, work) in clock.steps.items():
        print(f"{step:8}{wall:9.1f}{work:9.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
