"""How the time and memory of questions and plans grow with a lake: with snapshots, with files, with tables.

Lakes are made in two sizes, the larger ten times the smaller. Their metadata is real; their data files are empty, since
nothing here opens them. Each measurement runs in a process of its own, which first asks the same about a tiny table, so
that neither imports nor the interpreter count. Printed are seconds, the median of three runs, the most memory that was
needed on top, and the exponent of growth: the slope of processor time over size, both as logarithms. One is linear.

Exit code 1 if an exponent is above 1.1, or if plans over the largest number of small files in one partition need more
than 30 seconds or 300 MB.

    .venv/bin/python bench/scale.py [--snapshots 10000] [--files 100000] [--tables 1000] [--only files-in-one]
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden import Warden
from lakewarden.features.lake.init import Init

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table

STEEPEST = 1.1
ROUNDS = 3
MOST_SECONDS, MOST_MB = 30.0, 300.0
LEAST_SECONDS = 0.05  # of processor time in the larger lake: below this an exponent says nothing
_SPAN = 400 * 86_400_000  # milliseconds from the first version to the last
_PER_MANIFEST = 1000
_LISTED = 10  # manifests that a snapshot of a long history lists, as writers that merge them keep it


def _new_name() -> str:
    return f"measured-{uuid.uuid4().hex}"


Ask = Callable[[Warden, str], Any]
ABOUT_ONE: dict[str, Ask] = {
    "table show": lambda warden, table: warden.table.show(table),
    "table health": lambda warden, table: warden.table.health(table),
    "compaction analyze": lambda warden, table: warden.compaction.analyze(table),
    "compaction compact (plan)": lambda warden, table: warden.compaction.compact(table).plan.document(),
    "retention expire (plan)": lambda warden, table: warden.retention.expire(table).plan.document(),
    "policy run (plan)": lambda warden, table: warden.policy.run(table).plan.document(),
    "orphan find": lambda warden, table: warden.orphan.find(table),
}
ABOUT_VERSIONS: dict[str, Ask] = {
    "version list": lambda warden, table: warden.version.list(table, limit=10**6),
    "version held": lambda warden, table: warden.version.held(table),
    **ABOUT_ONE,
    "version tag": lambda warden, table: warden.version.tag(table, _new_name()).apply(),
    "version tag of an old version": lambda warden, table: warden.version.tag(f"{table}@first", _new_name()).apply(),
}
ABOUT_MANY: dict[str, Ask] = {
    "table list": lambda warden, table: warden.table.list(),
    "table health": lambda warden, table: warden.table.health(worst=10**6),
    "compaction analyze": lambda warden, table: warden.compaction.analyze(all=True),
    "retention expire (plan)": lambda warden, table: warden.retention.expire(all=True).plan.document(),
    "policy run (plan)": lambda warden, table: warden.policy.run().plan.document(),
    "orphan find": lambda warden, table: warden.orphan.find(all=True),
    "version tag": lambda warden, table: warden.version.tag("bench.*", _new_name()).apply(),
}
LIMITED = ("compaction compact (plan)", "policy run (plan)")
QUESTIONS = {
    "snapshots": ABOUT_VERSIONS,
    "files-in-one": ABOUT_ONE,
    "files-in-many": ABOUT_ONE,
    "tables": ABOUT_MANY,
}


def make_lake(folder: Path, kind: str, size: int) -> None:
    """A lake of one kind and size, and a tiny one beside it to warm up with."""
    for place, count in ((folder / "measured", size), (folder / "tiny", 2)):
        Init(directory=place).make()
        with Warden.open(place) as warden:
            warden.ground.catalogs.get("main").create_namespace("bench")
            if kind == "tables":
                for number in range(count):
                    make_table(warden, f"bench.t{number:06}", snapshots=1, files=3)
            elif kind == "snapshots":
                make_table(warden, "bench.t", snapshots=count, files=1)
            else:
                make_table(
                    warden, "bench.t", snapshots=1, files=count, partitions=1 if kind == "files-in-one" else 1000
                )


def make_table(warden: Warden, name: str, snapshots: int, files: int, partitions: int = 1) -> None:
    """A table whose every snapshot adds so many files, over more than a year; registered in one step."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.serializers import ToOutputFile
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.transforms import IdentityTransform

    catalog = warden.ground.catalogs.get("main")
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
    table = catalog.create_table(name, _schema(), partition_spec=spec)
    Path(table.metadata.location.removeprefix("file://"), "data").mkdir(parents=True, exist_ok=True)
    now = int(time.time() * 1000)
    manifests: list[ManifestFile] = []
    made: list[dict[str, Any]] = []
    for number in range(1, snapshots + 1):
        added = (_data_file(table, number, n, n % partitions) for n in range(files))
        for some in iter(lambda: list(islice(added, _PER_MANIFEST)), []):  # noqa: B023
            manifests.insert(0, _manifest(table, number, some))
        listed = manifests if snapshots == 1 else manifests[:_LISTED]
        made.append(_snapshot(table, number, listed, now - (snapshots - number) * _SPAN // snapshots, files))
    log = [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in made]
    document = json.loads(table.metadata.model_dump_json())
    document |= {"snapshots": made, "snapshot-log": log, "current-snapshot-id": snapshots}
    document |= {"last-sequence-number": snapshots, "last-updated-ms": now}
    metadata = type(table.metadata).model_validate(document)
    metadata.refs["main"] = SnapshotRef.model_validate({"snapshot-id": snapshots, "type": "branch"})
    metadata.refs["first"] = SnapshotRef.model_validate({"snapshot-id": 1, "type": "tag"})
    location = f"{table.metadata.location}/metadata/00001-{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(metadata, table.io.new_output(location))
    catalog.drop_table(name)
    catalog.register_table(name, location)


def _schema() -> Any:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

    kinds = [
        LongType(),
        LongType(),
        StringType(),
        StringType(),
        DoubleType(),
        TimestampType(),
        StringType(),
        LongType(),
    ]
    names = ["day", "id", "email", "city", "amount", "at", "note", "version"]
    return Schema(*(NestedField(n, name, kind) for n, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)))


def _data_file(table: Table, snapshot: int, number: int, partition: int) -> DataFile:
    """A small file, with the counts and bounds that writers record for each column."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    path = f"{table.metadata.location}/data/day={partition}/{snapshot:06}-{number:06}-{uuid.uuid4()}-00001.parquet"
    local = Path(path.removeprefix("file://"))
    if number < partition + 1:  # the first of its partition
        local.parent.mkdir(exist_ok=True)
    local.touch()
    columns = range(1, 9)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        record_count=1000 + number,
        file_size_in_bytes=200_000 + number,
        column_sizes={column: 10_000 + number + column for column in columns},
        value_counts=dict.fromkeys(columns, 1000 + number),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={5: 0},
        lower_bounds={column: number.to_bytes(8, "little") for column in columns},
        upper_bounds={column: (number + 1).to_bytes(8, "little") for column in columns},
        split_offsets=[4],
        sort_order_id=0,
    )


def _manifest(table: Table, snapshot: int, files: Iterable[DataFile]) -> ManifestFile:
    from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

    from lakewarden.engine.files.manifests import write_entries

    path = f"{table.metadata.location}/metadata/{uuid.uuid4()}-m0.avro"
    entries = (
        ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file)
        for file in files
    )
    return write_entries(table.metadata, table.io, path, 0, snapshot, added=entries)


def _snapshot(table: Table, number: int, manifests: Sequence[ManifestFile], at: int, files: int) -> dict[str, Any]:
    from pyiceberg.manifest import write_manifest_list

    path, parent = f"{table.metadata.location}/metadata/snap-{number}-{uuid.uuid4()}.avro", number - 1 or None
    with write_manifest_list(2, table.io.new_output(path), number, parent, number, "deflate") as listing:
        listing.add_manifests(list(manifests))
    summary = {"operation": "append", "added-data-files": str(files), "total-data-files": str(files * number)}
    return {
        "snapshot-id": number,
        **({"parent-snapshot-id": parent} if parent else {}),
        "sequence-number": number,
        "timestamp-ms": at,
        "manifest-list": path,
        "schema-id": 0,
        "summary": {**summary, "total-records": str(1000 * number), "engine-name": "bench"},
    }


def measure(folder: Path, kind: str, question: str) -> dict[str, float]:
    """Ask once about the tiny lake, then about the measured one."""
    ask, table = QUESTIONS[kind][question], "bench.t"
    with Warden.open(folder / "tiny") as warden:
        ask(warden, table)
    with Warden.open(folder / "measured") as warden:
        before, began, worked = _peak_mb(), time.perf_counter(), time.process_time()
        ask(warden, table)
        return {
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - worked,
            "mb": _peak_mb() - before,
        }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _apart(*arguments: str) -> str:
    """Run this file in a process of its own."""
    return subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def _measured(kind: str, folder: Path, question: str) -> dict[str, float]:
    """The medians of a few measurements, each in a process of its own; of memory, the most."""
    found = [json.loads(_apart("--measure", kind, str(folder), question)) for _ in range(ROUNDS)]
    medians = {what: statistics.median(each[what] for each in found) for what in ("seconds", "cpu")}
    return {**medians, "mb": max(each["mb"] for each in found)}


def compare(kind: str, sizes: tuple[int, int]) -> list[str]:
    """Measure everything that is asked of one kind of lake, in both sizes; what is beyond the limits, in words."""
    beyond = []
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(size) for size in sizes]
        began = time.perf_counter()
        for folder, size in zip(folders, sizes, strict=True):
            _apart("--make", kind, str(folder), str(size))
        print(f"\n{kind}: {sizes[0]:,} and {sizes[1]:,}, made in {time.perf_counter() - began:.0f} s")
        print(f"{'':32}{'seconds':>16}{'cpu seconds':>16}{'MB':>14}{'KB each':>9}{'exponent':>10}")
        for question in QUESTIONS[kind]:
            less, more = (_measured(kind, folder, question) for folder in folders)
            slope = math.log(more["cpu"] / less["cpu"]) / math.log(sizes[1] / sizes[0])
            exponent = f"{slope:.2f}" if more["cpu"] >= LEAST_SECONDS else "-"
            print(
                f"{question:32}{less['seconds']:7.2f} {more['seconds']:8.2f}{less['cpu']:7.2f} {more['cpu']:8.2f}"
                f"{less['mb']:6.0f} {more['mb']:7.0f}{more['mb'] * 1024 / sizes[1]:9.2f}{exponent:>10}",
                flush=True,
            )
            if more["cpu"] >= LEAST_SECONDS and slope > STEEPEST:
                beyond.append(f"{kind}, {question}: exponent {slope:.2f}")
            is_limited = kind == "files-in-one" and question in LIMITED
            if is_limited and (more["seconds"] > MOST_SECONDS or more["mb"] > MOST_MB):
                beyond.append(f"{kind}, {question}: {more['seconds']:.1f} s and {more['mb']:.0f} MB")
    return beyond


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--only", choices=QUESTIONS, action="append")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make_lake(Path(given.make[1]), given.make[0], int(given.make[2]))
        return
    if given.measure:
        print(json.dumps(measure(Path(given.measure[1]), given.measure[0], given.measure[2])))
        return
    largest = {"files-in-one": given.files, "files-in-many": given.files}
    beyond = []
    for kind in given.only or QUESTIONS:
        size = largest.get(kind) or getattr(given, kind)
        beyond += compare(kind, (size // 10, size))
    print("\n" + ("\n".join(beyond) if beyond else f"no exponent above {STEEPEST}, and nothing beyond the limits"))
    sys.exit(bool(beyond))


if __name__ == "__main__":
    main()
