"""Upkeep killed between any two steps, and what `operation resume` makes of it (invariants 1, 6).

A traced run tells every point that a run passes. Then a run is killed at each of them, in a process of its own, on the
very same lake, and resumed: its content is as it was, every version that has a name can be read, nothing lies in the
table's folder that metadata does not lead to, and there is nothing left to do.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden import Warden
from lakewarden.lifecycle import failpoints
from tests import killing
from tests.features.retention.test_expire import configure
from tests.reachability import ids_at, in_quarantine, orphans
from tests.small_lake import SmallLake

ORDERS = "sales.orders"
KEEP = {"retention": {"keep_last": 2, "keep_days": 0}}
NOT_BEGUN, OVER = ("operation.leased",), ("operation.done",)


class Ward:
    """A lake that is put back as it was before each round."""

    def __init__(self, folder: Path, fill: Callable[[SmallLake], None]) -> None:
        self.lake = SmallLake(folder / "lake", lease_timeout="2s")
        configure(self.lake, defaults=KEEP)
        fill(self.lake)
        table = self.lake.catalog.load_table(ORDERS)
        self.rows = self.lake.ids(ORDERS)
        self.named = {ref: ids_at(self.lake, ORDERS, ref) for ref in table.metadata.refs}
        self.lake.warden.close()
        self._saved = folder / "saved"
        shutil.copytree(self.lake.folder, self._saved)

    def again(self) -> SmallLake:
        self.lake.warden.close()
        shutil.rmtree(self.lake.folder)
        shutil.copytree(self._saved, self.lake.folder)
        self.lake.warden = Warden.open(self.lake.folder)
        return self.lake

    def points(self, trace: Path, *arguments: str) -> list[str]:
        """Every point that an undisturbed run passes."""
        killing.run(self.again(), *arguments, failpoints=f"trace:{trace}")
        self.check("undisturbed")
        return trace.read_text().split()

    def points_here(self) -> list[str]:
        """The same for all upkeep, in this process, whose Spark has started already."""
        passed: list[str] = []
        lake = self.again()
        failpoints._armed.append(lambda point, _: passed.append(point))
        lake.warden.policy.run().apply()
        failpoints.arm("")
        self.check("undisturbed")
        return passed

    def kill(self, number: int, point: str, *arguments: str) -> None:
        """Kill a run at a point, resume it, and look."""
        lake, trace = self.again(), self._saved.with_name(f"killed-at-{number}")
        killing.run(lake, *arguments, failpoints=f"trace:{trace},kill@{number}", code=-signal.SIGKILL)
        assert trace.read_text().split()[-1] == point
        killing.bury(lake)  # that they are waited for is tried in test_crashes
        if point in NOT_BEGUN:  # nothing is written down before that: nothing has begun
            assert lake.warden.operation.list(kind="policy.run") == []
            assert lake.warden.operation.resume(wait="10s") == []
            killing.run(lake, *arguments)
        elif point not in OVER:
            (resumed,) = lake.warden.operation.resume(wait="10s")
            assert resumed.state == "done", point
        self.check(f"{point} ({number})")

    def check(self, why: str) -> None:
        lake = self.lake
        table = lake.catalog.load_table(ORDERS)
        assert lake.ids(ORDERS) == self.rows, why
        assert {ref: ids_at(lake, ORDERS, ref) for ref in table.metadata.refs} == self.named, why
        for snapshot in table.metadata.snapshots:
            ids_at(lake, ORDERS, snapshot.snapshot_id)
        assert orphans(table) == set(), why
        assert in_quarantine(table), why
        assert {row.state for row in lake.warden.operation.list()} == {"done"}, why
        assert lake.warden.operation.list(limit=1)[0].kind == "policy.run", why
        assert _free_soon(lake), why
        assert lake.warden.policy.run().is_empty, why


def _free_soon(lake: SmallLake) -> bool:
    """Whether no lease holds: what a dead process held at its very end runs out by itself."""
    for _ in range(50):
        now = lake.warden.ground.clock()
        if all(lease.expires_at <= now for lease in lake.warden.ground.leases.held()):
            return True
        time.sleep(0.1)
    return False


def _old_versions_and_many_manifests(lake: SmallLake) -> None:
    """Ten small files in ten manifests: so many files are no reason to compact, so many manifests to merge."""
    lake.create(ORDERS, appends=4)
    lake.catalog.load_table(ORDERS).delete("id = 3")
    lake.warden.version.tag(f"{ORDERS}", "v1").apply()
    for _ in range(6):
        lake.append(ORDERS)


def _rows_deleted_on_read(lake: SmallLake) -> None:
    sql = lake.warden.ground.spark.sql
    lake.create(ORDERS, appends=6)
    lake.warden.version.tag(f"{ORDERS}", "v1").apply()
    sql(f"ALTER TABLE main.{ORDERS} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')").collect()
    sql(f"DELETE FROM main.{ORDERS} WHERE id IN (1, 2)").collect()
    for _ in range(7):
        lake.append(ORDERS)


@pytest.mark.slow
def test_expiry_and_manifests_killed_at_every_step(tmp_path: Path, soaking: bool) -> None:
    """No Spark: one process after the other. `make test` kills when versions are gone, and while files are moved."""
    ward = Ward(tmp_path, _old_versions_and_many_manifests)
    run = ("policy", "run", "--only", "retention,manifests", "--apply")
    points = ward.points(tmp_path / "trace", *run)
    assert points.count("commit.landed") == 2 and points.count("commit.staged") == 2
    assert points.count("storage.moved") > 3 and "quarantine.recorded" in points and "expiry.committed" in points
    at_stake = [(points.index(point) + 1, point) for point in ("expiry.committed", "storage.moved")]
    for number, point in killing.chosen(points) if soaking else at_stake:
        ward.kill(number, point, *run)


@pytest.mark.spark
@pytest.mark.slow
def test_a_compaction_killed(tmp_path: Path, soaking: bool) -> None:
    """Each run starts its own Spark: `make test` kills it when the commit has landed and is not yet recorded,
    `make soak` at every point after new files were written. test_crashes kills runs without Spark at every point."""
    ward = Ward(tmp_path, _rows_deleted_on_read)
    run = ("policy", "run", "--apply")
    points = ward.points_here()
    first = points.index("rewrite.written")
    before = ("rewrite.written", "rewrite.checked", "compaction.rewritten", "commit.ready", "commit.fenced")
    wanted = (*before, "commit.staged", "commit.landed", "action.applied")
    killed_at = {point: points.index(point, first) + 1 for point in wanted}
    for point in wanted if soaking else ("commit.landed",):
        ward.kill(killed_at[point], point, *run)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_an_expiry_through_spark_killed_when_spark_is_done(tmp_path: Path) -> None:
    """Format v3: Spark has let the versions go and deleted their files, and nobody has written that down."""
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        configure(lake, defaults=KEEP)
        lake.create(ORDERS, format=3, appends=4)
        rows = lake.ids(ORDERS)
        killing.kill(lake, "procedure.done", "procedure.done", "policy", "run", "--apply")
        assert len(lake.catalog.load_table(ORDERS).metadata.snapshots) == 2
        (resumed,) = lake.warden.operation.resume(wait="10s")
        assert (resumed.state, lake.ids(ORDERS)) == ("done", rows)
        assert orphans(lake.catalog.load_table(ORDERS)) == set()
        assert lake.warden.policy.run().is_empty
