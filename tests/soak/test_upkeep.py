"""Upkeep under rough conditions: killed at random moments, and in the midst of others who write (invariants 1, 6, 7).

CI runs two rounds; `make soak` runs thirty. The seed is printed where something fails, and `--seed` repeats it.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden import Warden
from lakewarden.errors import Conflict
from tests.features.retention.test_expire import configure
from tests.killing import until_passed
from tests.reachability import ids_at, on_disk, orphans
from tests.small_lake import SCHEMA, SmallLake

ORDERS = "sales.orders"
_PATIENT = timedelta(seconds=20)
_TRIES = 40  # of a writer that loses its races

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.rounds,
    # PyIceberg deletes by rewriting, and says so
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SmallLake]:
    """A table whose rows are deleted on read, that keeps its last three versions."""
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        configure(lake, defaults={"retention": {"keep_last": 3, "keep_days": 0}})
        lake.create(ORDERS, appends=0)
        properties = {
            "write.delete.mode": "merge-on-read",
            "commit.retry.num-retries": "8",
            "write.metadata.previous-versions-max": "10000",  # else the table itself forgets its oldest metadata
        }
        with lake.catalog.load_table(ORDERS).transaction() as change:
            change.set_properties(properties)
        yield lake


class Model:
    """What was written to a table, and nothing else."""

    def __init__(self, lake: SmallLake) -> None:
        self.lake = lake
        self.there: set[int] = set()
        self.tagged: dict[str, list[int]] = {}
        self._next = count()

    def append(self, table: Any, rows: int) -> None:
        ids = [next(self._next) for _ in range(rows)]
        table.append(pa.table({"id": ids, "city": ["x"] * rows}, schema=SCHEMA))
        self.there |= set(ids)

    def delete(self, ids: set[int], by_spark: bool) -> None:
        some = ", ".join(map(str, sorted(ids)))
        if by_spark:
            self.lake.warden.ground.spark.sql(f"DELETE FROM main.{ORDERS} WHERE id IN ({some})").collect()
        else:
            self.lake.catalog.load_table(ORDERS).delete(f"id IN ({some})")
        self.there -= ids

    def tag(self, name: str) -> None:
        """Give the current version a name; whatever happens later, it must hold what it holds now."""
        self.lake.warden.version.tag(ORDERS, name).apply(wait=_PATIENT)
        self.tagged[name] = ids_at(self.lake, ORDERS, name)

    def check(self, why: str) -> None:
        table = self.lake.catalog.load_table(ORDERS)
        found = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert found == sorted(self.there), f"{why}: lost, doubled or resurrected: {set(found) ^ self.there}"
        assert {name: ids_at(self.lake, ORDERS, name) for name in self.tagged} == self.tagged, why
        for snapshot in table.metadata.snapshots:
            ids_at(self.lake, ORDERS, snapshot.snapshot_id)


def test_killed_at_a_random_moment(shop: SmallLake, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, model, killed = random.Random(seed), Model(shop), 0
    for number in range(rounds):
        why = f"round {number} of seed {seed}"
        table = shop.catalog.load_table(ORDERS)
        for _ in range(12):
            model.append(table, 3)
        model.delete(set(chance.sample(sorted(model.there), 5)), by_spark=number % 2 == 0)
        if number % 3 == 0:
            model.tag(f"r{number}")
        only = chance.choice(["retention", "retention,manifests", "retention,manifests,compaction", "compaction"])
        trace = tmp_path / f"trace-{number}"
        process = shop.start("policy", "run", "--only", only, "--apply", failpoints=f"trace:{trace}")
        until_passed(process, trace, chance.randint(1, 40))
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        if chance.random() < 0.5:  # the world goes on before anybody resumes
            model.append(shop.catalog.load_table(ORDERS), 3)
        shop.warden.operation.resume(wait="20s")

        assert {row.state for row in shop.warden.operation.list(limit=1000)} <= {"done"}, why
        model.check(why)
        assert orphans(shop.catalog.load_table(ORDERS)) == set(), why
    assert killed > 0


def test_in_the_midst_of_others_who_write(shop: SmallLake, pytestconfig: pytest.Config) -> None:
    """One appends, one deletes rows on read and by rewriting, while compactions and expiries run in a row."""
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    model, over = Model(shop), threading.Event()
    for _ in range(12):
        model.append(shop.catalog.load_table(ORDERS), 5)
    with Warden.open(shop.folder) as other:
        outside = other.ground.catalogs.get("main")
        writers = [
            _Writer(lambda: model.append(outside.load_table(ORDERS), 5), over, pause=0.05),
            _Writer(_deleter(model, random.Random(seed)), over, pause=0.2),
        ]
        compacted = expired = 0
        try:
            for number in range(rounds):
                compacted += _try(lambda: shop.warden.compaction.compact(ORDERS).apply(wait=_PATIENT))
                model.tag(f"r{number}")
                expired += _try(lambda: shop.warden.retention.expire(ORDERS).apply(wait=_PATIENT))
                _try(lambda: shop.warden.compaction.manifests(ORDERS).apply(wait=_PATIENT))
        finally:
            over.set()
            for writer in writers:
                writer.join()
    why = f"seed {seed}, {[writer.done for writer in writers]} writes, {compacted} compactions, {expired} expiries"
    assert [writer.failure for writer in writers] == [None, None], why
    assert all(writer.done > 0 for writer in writers) and compacted > 0 and expired > 0, why
    model.check(why)
    shop.warden.policy.run().apply()
    model.check(f"{why}, at rest")
    ours = {path for path in orphans(shop.catalog.load_table(ORDERS)) if "lw-op-" in str(path)}
    assert ours == set(), why  # what others wrote and never published is theirs


class _Writer(threading.Thread):
    """Writes again and again until it is told to stop; a race that it loses is run again."""

    def __init__(self, write: Callable[[], None], over: threading.Event, pause: float) -> None:
        super().__init__(daemon=True)
        self._write, self._over, self._pause = write, over, pause
        self.done = 0
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        while not self._over.wait(self._pause) and self.failure is None:
            for attempt in range(_TRIES):
                try:
                    self._write()
                    self.done += 1
                    break
                except Exception as error:  # noqa: BLE001 - a writer may lose against anybody in any way
                    self.failure = error if attempt == _TRIES - 1 else None
                    time.sleep(0.05)


def _deleter(model: Model, chance: random.Random) -> Callable[[], None]:
    turn = count()
    chosen: list[set[int]] = []

    def delete() -> None:
        """The same rows until it works: then they are gone, and only then are they counted as gone."""
        if not chosen:
            chosen.append(set(chance.sample(sorted(model.there), 3)))
        model.delete(chosen[0], by_spark=next(turn) % 4 != 3)
        chosen.clear()

    return delete


def _try(work: Callable[[], Any]) -> int:
    """One, where it worked; nothing where others were quicker each time, which may be."""
    try:
        return int(work().result.get("actions", 0) > 0)
    except Conflict:
        return 0


def test_what_is_left_of_a_kill_is_on_disk(shop: SmallLake) -> None:
    """The checks above would see it: a stray file in the table's folder is told."""
    shop.append(ORDERS)
    table = shop.catalog.load_table(ORDERS)
    stray = on_disk(table.metadata.location) / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    assert orphans(table) == {stray}
    with pytest.raises(AssertionError, match="lost"):
        Model(shop).check("a model that knows of nothing")
