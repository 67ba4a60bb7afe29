"""Rows appended and replaced under rough conditions: killed at any step, in the midst of others (invariants 6, 7).

One operation after the other publishes rows and is killed on the way, while others append, delete rows and rewrite
files. It is run again, as `operation resume` does: nothing is lost, nothing doubled. CI runs two rounds; `make soak`
runs thirty. The seed is printed where something fails, and `--seed` repeats it.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.serializers import FromInputFile

from lakewarden import Warden
from lakewarden.engine.catalog.snapshots import stamped
from lakewarden.engine.commit.delete_files import Mask
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.engine.commit.rewritten_files import Rewrite, RewrittenGroup
from lakewarden.engine.files.live_files import Files, LiveFile, SnapshotFiles
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.lifecycle import failpoints
from lakewarden.lifecycle.basics import Stamp
from lakewarden.lifecycle.failpoints import when
from tests import killing
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP
from tests.engine.new_files import SALES, new_file, position_deletes, sales
from tests.engine.staged import Shop
from tests.reachability import orphans
from tests.readers.engines import Ref, _duckdb
from tests.readers.spec import faults
from tests.small_lake import SmallLake
from tests.soak.appending import TABLE, ids_of
from tests.soak.test_upkeep import _Writer

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake") as lake:
        lake.catalog.create_namespace("shop")
        properties = {"write.metadata.previous-versions-max": "10000", "commit.retry.num-retries": "8"}
        lake.catalog.create_table("shop.sales", SALES, properties=properties)
        yield lake


class Others:
    """What others do to the table, and which rows there must be because of it."""

    def __init__(self, lake: SmallLake, seed: int) -> None:
        self.warden = Warden.open(lake.folder)
        self.chance = random.Random(seed)
        self.there: set[int] = set()
        self._next, self._turn = count(), count()
        self._chosen: set[int] = set()

    @property
    def table(self) -> Any:
        return self.warden.ground.tables.load(TABLE)

    @property
    def files(self) -> SnapshotFiles:
        table = self.table
        return Files(Manifests()).of(table, table.current_snapshot())

    def commits(self) -> tuple[DirectCommits, Stamp]:
        stamp = Stamp(f"op-20261115-202122-{next(self._turn):06x}", "0123456789ab", "others")
        return DirectCommits(self.warden.ground.tables, lambda: None, stamp, Manifests()), stamp

    def append(self) -> None:
        ids = [next(self._next) for _ in range(5)]
        self.table.append(pa.Table.from_pylist(sales(ids), self.table.schema().as_arrow()))
        self.there |= set(ids)

    def delete(self) -> None:
        """Rows of their own, by position or by rewriting; the same ones until it works."""
        if not self._chosen:
            self._chosen = set(self.chance.sample(sorted(self.there), 2))
        if next(self._turn) % 2:
            self.table.delete(f"id IN ({', '.join(map(str, self._chosen))})")
        else:
            self._mask(self._chosen)
        self.there -= self._chosen
        self._chosen = set()

    def _mask(self, ids: set[int]) -> None:
        table, files = self.table, self.files
        deletes: list[AddedFile] = []
        inputs: dict[str, frozenset[str]] = {}
        for file in files.data:
            places = [place for place, row in enumerate(_rows(table, file)) if row["id"] in ids]
            if places:
                made = position_deletes(table, file, places)
                deletes.append(AddedFile(made, file.partition[0]))
                inputs[file.path] = file.deletes_identity
        commits, _ = self.commits()
        commits.publish(Mask(TABLE, str(table.metadata.table_uuid), tuple(deletes), inputs))

    def compact(self) -> None:
        """A few files that have no deletes, as one."""
        table, files = self.table, self.files
        whole = [file for file in files.data if not file.deletes]
        some = self.chance.sample(whole, min(3, len(whole)))
        if len(some) < 2:
            return
        rows = [row for file in some for row in _rows(table, file)]
        commits, stamp = self.commits()
        added = replace(new_file(table, rows, stamp), sequence=max(file.sequence for file in some))
        group = RewrittenGroup(0, {file.path: frozenset() for file in some}, (added,))
        commits.publish(Rewrite(TABLE, str(table.metadata.table_uuid), (group,)))


def _rows(table: Any, file: LiveFile) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    with table.io.new_input(file.path).open() as stream:
        rows: list[dict[str, Any]] = pq.read_table(stream).to_pylist()
        return rows


@pytest.mark.rounds
def test_killed_in_the_midst_of_others(shop: SmallLake, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, others, over = random.Random(seed), Others(shop, seed), threading.Event()
    others.append()
    points = {kind: _points(shop, tmp_path / kind, n, kind) for n, kind in enumerate(["append", "overwrite"])}
    points["stage"] = 10  # it passes eleven, and more where others are quicker
    expected = set(ids_of(0))
    writers = [
        _Writer(others.append, over, pause=0.05),
        _Writer(others.delete, over, pause=0.2),
        _Writer(others.compact, over, pause=0.2),
    ]
    try:
        for number in range(2, 2 + rounds):
            kind = chance.choice(["append", "append", "overwrite", "stage"])
            killed_at = chance.randint(1, points[kind])
            killing.run(shop, failpoints=f"kill@{killed_at}", code=-signal.SIGKILL, first=_act(shop, number, kind))
            killing.run(shop, first=_act(shop, number, kind))
            expected |= set(ids_of(number)) if kind != "overwrite" else set()
    finally:
        over.set()
        for writer in writers:
            writer.join()
    why = f"seed {seed}, {[writer.done for writer in writers]} writes of others"
    assert [writer.failure for writer in writers] == [None] * 3, why
    assert all(writer.done for writer in writers), why
    _check(shop, expected | others.there, why)


def _check(lake: SmallLake, expected: set[int], why: str) -> None:
    table = lake.catalog.load_table("shop.sales")
    found = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert found == sorted(expected), f"{why}: lost, doubled or resurrected: {set(found) ^ expected}"
    ref = Ref("shop.sales", "main", "branch", table.metadata.current_snapshot_id, table.metadata_location)
    assert sorted(row["id"] for row in _duckdb(ref)) == found, why
    found_wrong = faults(table.metadata_location, lambda path: "/lw-op-20261115-101112" in path)
    assert [fault for fault in found_wrong if fault != "metadata-log is not in order"] == [], why
    assert _set_back(table) == [], why
    assert {path for path in orphans(table) if "lw-op-20261115-101112" in str(path)} == set(), why


def _set_back(table: Any) -> list[str]:
    """Commits of ours that set the table's clock back. PyIceberg's do, where another commit lands beside them."""
    wrong, before = [], None
    for entry in table.metadata.metadata_log:
        if before is not None and entry.timestamp_ms < before.timestamp_ms:
            made, known = (
                FromInputFile.table_metadata(table.io.new_input(each.metadata_file)) for each in (entry, before)
            )
            new = {s.snapshot_id for s in made.snapshots} - {s.snapshot_id for s in known.snapshots}
            notes = [s.summary.additional_properties for s in made.snapshots if s.snapshot_id in new and s.summary]
            wrong += [str(told) for told in notes if "lakewarden.operation" in told] if new else [entry.metadata_file]
        before = entry
    return wrong


def _points(lake: SmallLake, trace: Path, number: int, kind: str) -> int:
    """How many points an undisturbed run passes."""
    killing.run(lake, failpoints=f"trace:{trace}", first=_act(lake, number, kind))
    return len(trace.read_text().split())


def _act(lake: SmallLake, number: int, kind: str) -> str:
    return f"from tests.soak.appending import act\nact({str(lake.folder)!r}, {number}, {kind!r})"


class Killed(BaseException):
    """The process ends here: nothing catches it, and nothing is tidied up."""


def kill_at(point: str, time: int) -> None:
    """Have this process as good as killed when it passes a point for the nth time."""

    def kill() -> None:
        if len(passed) == time:
            raise Killed

    passed = when(point, kill, times=time)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "replaces"),
    [
        pytest.param(2, False, id="v2-appended"),
        pytest.param(3, True, id="v3-replaced", marks=pytest.mark.soak),
        pytest.param(2, True, id="v2-replaced", marks=pytest.mark.soak),
        pytest.param(3, False, id="v3-appended", marks=pytest.mark.soak),
    ],
)
def test_staged_rows_killed_at_every_step(tmp_path: Path, format: int, replaces: bool, soaking: bool) -> None:
    """The same action is run again, as a resumed operation does: its rows are there once, and nothing else is.

    One session serves all of it; `make test` kills when rows are staged and when the commit has landed.
    """
    with SmallLake(tmp_path / "lake") as lake:
        lake.catalog.create_namespace("shop")
        shop = Shop(lake, "sales", format)
        shop.insert(100)
        points: list[str] = []
        failpoints._armed.append(lambda point, number: points.append(point))
        _replace_or_append(shop, 0, STAMP, shop.known() if replaces else {})
        failpoints.arm("")
        expected = [*range(4), *([] if replaces else [100])]
        shop.check(*expected)
        at_stake = points if soaking else ("staging.written", "commit.landed")
        for number, point in enumerate(points, start=1):
            if point in at_stake:
                stamp, out = replace(STAMP, action=f"{number:012x}"), shop.known() if replaces else {}
                kill_at(point, points[:number].count(point))
                with pytest.raises(Killed):
                    _replace_or_append(shop, number * 10, stamp, out)
                failpoints.arm("")
                _replace_or_append(shop, number * 10, stamp, out)
                expected = [*([] if replaces else expected), *range(number * 10, number * 10 + 4)]
                assert sorted(row.id for row in shop.sql("SELECT id FROM {t}")) == sorted(expected), point
                assert set(shop.table.metadata.refs) == {"main"}, point
        shop.check(*expected, is_swept=False)


def _replace_or_append(shop: Shop, start: int, stamp: Stamp, out: Mapping[str, frozenset[str]]) -> None:
    bench = shop.bench(stamp)
    if stamped(shop.table, stamp) is None:
        staged = shop.stage(start, start + 4, stamp, replaced=out)
        change = Overwrite(shop.name, shop.uuid, staged=staged, removed=out)
        bench.commits.publish(change if out else Append(shop.name, shop.uuid, staged=staged))
    bench.sweep(shop.name)
