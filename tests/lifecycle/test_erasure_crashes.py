"""A purge killed between any two steps, and what `operation resume` makes of it (invariants 4, 5, 6).

A traced run tells every point that a run passes. Then a run is killed at each of them, in a process of its own, on the
very same lake: each branch and tag is wholly before or wholly after, by the count of an independent reader. Resumed, no
row is lost or doubled, no value is anywhere, nothing is left lying about, and a clean proof has closed the request.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from lakewarden import Warden
from lakewarden.errors import LakewardenError, LeaseHeld
from tests import killing
from tests.features.erasure.erasable import KEY, Erasable, mail
from tests.features.erasure.independent import traces
from tests.features.erasure.independent_rows import unreferenced_copies
from tests.small_lake import SmallLake

NAME = "crm.people"
GONE = (1, 4, 7, 31, 40)
PURGE = ("erasure", "purge", NAME, "--apply")
NOT_BEGUN, OVER = ("operation.leased",), ("operation.done",)


class Asked:
    """A lake in which somebody has asked to be forgotten, put back as it was before each round."""

    def __init__(self, folder: Path, fill: Callable[[SmallLake], None]) -> None:
        self.lake = SmallLake(folder / "lake")
        self.lake.catalog.create_namespace("crm")
        fill(self.lake)
        self.table = Erasable(self.lake, NAME, frozenset(mail(n) for n in GONE), KEY)
        self.request = self.lake.warden.erasure.request(NAME, key="mail", value=sorted(self.table.gone)).id
        self.erased = self.table.erased
        self.before = {ref: version.told() for ref, version in self.table.versions.items()}
        self.after = {ref: version.without(KEY, self.table.gone) for ref, version in self.table.versions.items()}
        assert all(self.after[ref] != rows for ref, rows in self.before.items())
        self.lake.warden.close()
        self._saved = folder / "saved"
        shutil.copytree(self.lake.folder, self._saved)

    def again(self) -> SmallLake:
        self.lake.warden.close()
        shutil.rmtree(self.lake.folder)
        shutil.copytree(self._saved, self.lake.folder)
        self.lake.warden = Warden.open(self.lake.folder)
        return self.lake

    def points(self, trace: Path) -> list[str]:
        """Every point that an undisturbed run passes."""
        killing.run(self.again(), *PURGE, failpoints=f"trace:{trace}")
        self.check("undisturbed")
        return trace.read_text().split()

    def kill(self, number: int | str, point: str, at_once: bool = True) -> None:
        """Kill a run at a point, look, resume it, and look again."""
        lake, why = self.again(), f"{point} ({number})"
        killing.kill(lake, number, point, *PURGE)
        self.look_between(why, at_once)
        killing.bury(lake)  # that they are waited for is tried in test_crashes
        if point in NOT_BEGUN:  # nothing is written down before that: nothing has begun
            assert lake.warden.operation.resume(wait="10s") == [], why
            killing.run(lake, *PURGE)
        elif point not in OVER:
            (resumed,) = lake.warden.operation.resume(wait="10s")
            assert resumed.state == "done", why
        self.check(why)

    def look_between(self, why: str, at_once: bool) -> None:
        """Each ref is wholly before or wholly after; where one commit does it all, all of them are the same."""
        now = {ref: version.told() for ref, version in self.table.versions.items() if not ref.startswith("lakewarden")}
        assert now.keys() == self.before.keys(), why
        done = {ref for ref in now if now[ref] == self.after[ref]}
        assert {ref: now[ref] for ref in now if ref not in done} == {
            ref: rows for ref, rows in self.before.items() if ref not in done
        }, why
        assert not at_once or done in (set(), set(now)), why

    def check(self, why: str) -> None:
        lake, table = self.lake, self.table
        assert {ref: version.told() for ref, version in table.versions.items()} == self.after, why
        assert traces(lake.folder / "lake", [self.erased]) == [], why
        assert traces(lake.folder, [self.erased]) == [], why  # the control database has forgotten them too
        assert unreferenced_copies(table.table.metadata_location) == set(), why
        assert lake.warden.erasure.show(self.request).state == "closed", why
        assert lake.warden.erasure.purge(NAME).is_empty, why
        assert {row.state for row in lake.warden.operation.list(kind="erasure.purge")} == {"done"}, why


def _with_deletes_of_every_kind(lake: SmallLake, format: int = 2) -> None:
    """A tag, a branch and main, with position and equality deletes on rows that are to go and on others."""
    table = Erasable(lake, NAME, frozenset())
    table.sql(
        "CREATE TABLE {t} (id BIGINT, mail STRING, city STRING) USING iceberg PARTITIONED BY (truncate(1, mail)) "
        f"TBLPROPERTIES ('format-version' = '{format}', 'write.delete.mode' = 'merge-on-read')"
    )
    table.insert([0, 1, 2, 4, 31, 40])
    lake.warden.version.tag(NAME, "v1", keep="90d", note="audit").apply()
    table.insert([1, 3, 4, 7, 8, 32])
    lake.warden.version.branch(NAME, "work").apply()
    table.sql("DELETE FROM {t} WHERE id IN (1, 2, 3, 32, 1004)")
    if format == 2:
        table.delete_by_equality([7, 8])
    table.insert([7, 9], copies=1)


@pytest.mark.spark
@pytest.mark.slow
def test_a_purge_killed_at_every_step(tmp_path: Path, soaking: bool) -> None:
    """Spark only creates the table: the purges run one after the other, without it. `make test` kills before the
    commit, after it, and while files are deleted."""
    asked = Asked(tmp_path, _with_deletes_of_every_kind)
    points = asked.points(tmp_path / "trace")
    wanted = {"purge.searched", "purge.rewritten", "purge.intended", "purge.committed", "purge.removed", "purge.strays"}
    assert wanted | {"purge.recorded", "commit.landed", "prove.recorded", "prove.closed"} <= set(points)
    assert points.count("storage.deleted") > 0
    if not soaking:
        for point in ("commit.fenced", "commit.landed", "storage.deleted"):
            asked.kill(point, point)
        return
    for number, point in killing.chosen(points):
        asked.kill(number, point)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_a_purge_through_spark_killed(tmp_path: Path) -> None:
    """Format v3, ref by ref, killed at every point of this route. Each run starts its own Spark; test_spark_route
    stops the same route within one process."""
    asked = Asked(tmp_path, partial(_with_deletes_of_every_kind, format=3))
    points = asked.points(tmp_path / "trace")
    of_its_own = [point for point in dict.fromkeys(points) if point.startswith(("spark_cleansing.", "statement."))]
    assert {"spark_cleansing.moved", "spark_cleansing.expired"} <= set(of_its_own)
    for point in of_its_own:
        asked.kill(point, point, at_once=False)


@pytest.mark.spark
@pytest.mark.soak
def test_a_compaction_waits_until_a_purge_is_over(tmp_path: Path) -> None:
    """It was planned on files that the purge takes away: it may come to nothing, but it brings nobody back."""
    asked, gate = Asked(tmp_path, _with_deletes_of_every_kind), tmp_path / "gate"
    lake = asked.again()
    compaction = lake.warden.compaction.compact(NAME, rewrite_all=True)
    assert not compaction.is_empty
    purge = lake.start(*PURGE, failpoints=f"wait@commit.fenced:{gate}")
    while not gate.exists():
        assert purge.poll() is None, purge.communicate()
        time.sleep(0.02)
    with pytest.raises(LeaseHeld, match="is held by operation"):
        compaction.apply()
    found: list[str] = []

    def compact() -> None:
        with suppress(LakewardenError):
            lake.warden.compaction.compact(NAME, rewrite_all=True).apply(wait=timedelta(seconds=60))
        found.append(lake.warden.erasure.show(asked.request).state)

    waiting = threading.Thread(target=compact)
    waiting.start()
    time.sleep(1)
    assert found == []
    gate.unlink()
    _, said = purge.communicate(timeout=120)
    waiting.join(120)
    assert purge.returncode == 0, said
    assert found == ["closed"]  # it had to wait for the proof as well
    assert {ref: version.told() for ref, version in asked.table.versions.items()} == asked.after
    assert traces(asked.table.folder, [asked.erased]) == []
