"""A process killed at any step of putting away, bringing back or deleting, and what `operation resume` makes of it.

Whatever the moment, every file is at its place or in quarantine, and after resuming all is as after an undisturbed run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.engine.storage.quarantine import batches
from tests import killing
from tests.engine.lakes import digest
from tests.features.orphan.orphans import age_all, contents, folder, plant
from tests.small_lake import SmallLake

PLANTED = ("data/a.parquet", "data/city=Bern/b.parquet", "metadata/c.avro")
OURS = ("action.checked", "quarantine.", "storage.", "action.applied")


@pytest.fixture
def littered(tmp_path: Path) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake") as lake:
        lake.create(appends=1)
        age_all(lake)
        plant(lake, *PLANTED)
        yield lake


def killed_at_each(lake: SmallLake, trace: Path, *arguments: str) -> Iterator[str]:
    """Run a command to its end once, then once for each point of ours that it passed, killed there and resumed."""
    killing.run(lake, *arguments, failpoints=f"trace:{trace}")
    points = trace.read_text().split()
    assert {"quarantine.ended", "quarantine.recorded"} & set(points)
    yield "undisturbed"
    for number, point in enumerate(points, start=1):
        if point.startswith(OURS):
            killing.kill(lake, number, point, *arguments)
            killing.bury(lake)  # that they are waited for is tried in tests/lifecycle/test_crashes
            found = {Path(name).name.split("-")[-1] for name in digest(folder(lake))}
            if "delete" not in arguments:
                assert {Path(name).name for name in PLANTED} <= found, f"lost at {point}"
            (resumed,) = lake.warden.operation.resume(wait="10s")
            assert resumed.state == "done", point
            yield f"{number} {point}"


@pytest.mark.slow
def test_putting_away(littered: SmallLake, tmp_path: Path) -> None:
    lake, before = littered, contents(littered)
    rounds = 0
    for point in killed_at_each(lake, tmp_path / "trace", "orphan", "quarantine", "sales.orders", "--apply"):
        assert contents(lake) == {name: sum for name, sum in before.items() if name not in PLANTED}, point
        (batch,) = batches(lake.warden.ground.storage("main"), f"file://{folder(lake)}")
        assert [file.path.removeprefix(f"file://{folder(lake)}/") for file in batch.files] == list(PLANTED), point
        newest = lake.warden.operation.show(lake.warden.operation.list(limit=1)[0].id)
        told = (newest.result.get("files_quarantined", 3), newest.result.get("bytes_quarantined", 15))
        assert told == (3, 15), point  # measured, or where nothing was left to do, not told
        lake.warden.orphan.restore(batch.id).apply()
        assert contents(lake) == before, point
        rounds += 1
    assert rounds >= 7
    assert {row.state for row in lake.warden.operation.list(limit=500)} == {"done"}


@pytest.mark.slow
def test_bringing_back(littered: SmallLake, tmp_path: Path) -> None:
    lake, before = littered, contents(littered)
    operation = str(lake.warden.orphan.quarantine("sales.orders").apply().id)
    saved, top = tmp_path / "saved", folder(lake)
    shutil.copytree(top, saved)
    rounds = 0
    for point in killed_at_each(lake, tmp_path / "trace", "orphan", "restore", operation):
        assert digest(top) == before, point  # nothing is left of the batch either
        shutil.rmtree(top)
        shutil.copytree(saved, top)
        rounds += 1
    assert rounds >= 7


@pytest.mark.slow
def test_deleting(littered: SmallLake, tmp_path: Path) -> None:
    lake = littered
    lake.warden.orphan.quarantine("sales.orders").apply()
    saved, top, left = tmp_path / "saved", folder(lake), contents(lake)
    shutil.copytree(top, saved)
    rounds = 0
    for point in killed_at_each(lake, tmp_path / "trace", "orphan", "delete", "--all", "--now", "--apply"):
        assert digest(top) == left, point
        shutil.rmtree(top)
        shutil.copytree(saved, top)
        rounds += 1
    assert rounds >= 6
