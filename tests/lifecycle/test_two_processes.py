"""Two processes on one table: never both at once, and who lost its lease publishes nothing (invariant 7)."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from tests.small_lake import POSTGRES_FIRST, SQLITE_FIRST, SmallLake


@pytest.fixture
def shared(tmp_path: Path, state_url: str) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake", state_url, lease_timeout="2s") as lake:
        lake.create()
        yield lake


def until(path: Path) -> None:
    """Wait until the other process stands at its point."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "the other process never came to its point"
        time.sleep(0.02)


@POSTGRES_FIRST
def test_the_second_is_refused_with_the_first_ones_id(shared: SmallLake, tmp_path: Path, soaking: bool) -> None:
    gate = tmp_path / "gate"
    first = shared.start("version", "tag", "sales.orders", "first", "--json", failpoints=f"wait@commit.ready:{gate}")
    until(gate)
    if soaking:
        time.sleep(3)  # longer than the lease: the holder renews it while it lives

    second = shared.run("version", "tag", "sales.orders", "second", "--json", check=1)
    gate.unlink()
    out, _ = first.communicate(timeout=60)

    error, done = json.loads(second.stdout)["error"], json.loads(out)["operation"]
    assert error["code"] == "lease-held"
    assert error["held_by"] == done["id"]
    assert done["id"] in error["message"]
    assert set(shared.refs()) == {"main", "first"}


@SQLITE_FIRST
@pytest.mark.soak
def test_the_second_can_wait(shared: SmallLake, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = shared.start("version", "tag", "sales.orders", "first", failpoints=f"wait@commit.ready:{gate}")
    until(gate)
    second = shared.start("version", "tag", "sales.orders", "second", "--wait", "60s")
    time.sleep(2)
    assert second.poll() is None
    assert set(shared.refs()) == {"main"}
    gate.unlink()

    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert set(shared.refs()) == {"main", "first", "second"}
    for process in (first, second):
        process.communicate()


@pytest.mark.parametrize(
    "point", ["commit.fenced", *(pytest.param(at, marks=pytest.mark.soak) for at in ("action.checked", "commit.ready"))]
)
def test_a_runner_that_was_taken_over_publishes_nothing(shared: SmallLake, tmp_path: Path, point: str) -> None:
    gate = tmp_path / "gate"
    first = shared.start("version", "tag", "sales.orders", "v1", "--json", failpoints=f"wait@{point}:{gate}")
    until(gate)
    first.send_signal(signal.SIGSTOP)  # as if the machine had been suspended: nothing renews the lease
    gate.unlink()
    resumed = shared.run("operation", "resume", "--wait", "15s", "--json")
    files = shared.metadata_files()
    first.send_signal(signal.SIGCONT)
    out, _ = first.communicate(timeout=60)

    assert [row["state"] for row in json.loads(resumed.stdout)] == ["done"]
    assert first.returncode == 1
    assert json.loads(out)["error"]["code"] == "lease-lost"
    assert shared.metadata_files() == files
    assert [row.state for row in shared.warden.operation.list()] == ["done"]


def test_many_processes_tag_one_table_and_none_is_lost(shared: SmallLake) -> None:
    processes = [shared.start("version", "tag", "sales.orders", f"t{n}", "--wait", "60s") for n in range(4)]
    for number in range(6):  # and an outside client makes its own meanwhile
        for _ in range(20):
            try:
                table = shared.catalog.load_table("sales.orders")
                table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, f"outside{number}").commit()
                break
            except (CommitFailedException, OperationalError):
                time.sleep(0.05)
        time.sleep(0.2)
    for process in processes:
        process.communicate(timeout=90)

    assert [process.returncode for process in processes] == [0] * 4
    assert set(shared.refs()) == {"main", *(f"t{n}" for n in range(4)), *(f"outside{n}" for n in range(6))}
