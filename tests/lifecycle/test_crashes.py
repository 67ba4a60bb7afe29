"""A process killed between any two steps, and what `operation resume` makes of it (invariant 6).

A traced run tells every point that a run passes; then a run is killed at each of them in turn, in a
process of its own, on a real lake, and resumed. What a dead process holds is waited for after some
kills; after the others it is buried at once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.lifecycle import processes
from tests import killing
from tests.small_lake import POSTGRES_FIRST, SQLITE_FIRST, SmallLake

TABLES = ("sales.a", "sales.b")
MANY = tuple(f"sales.t{number}" for number in range(6))
THREE_AT_ONCE = """
from lakewarden.features.version.tag import Tag
Tag.parallel = 3
"""
FIRST_TWO_TOGETHER = f"""
{THREE_AT_ONCE}
import threading
both, first, apply = threading.Barrier(2), iter("ab"), Tag.apply


def together(self, action, lake):
    if next(first, None):
        both.wait(60)
    return apply(self, action, lake)


Tag.apply = together
"""
SIDE_BY_SIDE = f"""
import sys
from lakewarden.doors.cli.main import main
{THREE_AT_ONCE}
main(sys.argv[1:])
"""


@pytest.fixture
def two_tables(tmp_path: Path, state_url: str) -> Iterator[SmallLake]:
    """Two tables, and leases that a dead process does not keep for long."""
    with SmallLake(tmp_path / "lake", state_url, lease_timeout="2s") as lake:
        for name in TABLES:
            lake.create(name, appends=1)
        yield lake


def points_passed(lake: SmallLake, trace: Path, *arguments: str) -> list[str]:
    killing.run(lake, *arguments, failpoints=f"trace:{trace}")
    return trace.read_text().split()


@POSTGRES_FIRST
def test_an_operation_of_two_actions_killed_at_every_step(two_tables: SmallLake, tmp_path: Path, soaking: bool) -> None:
    """`make test` kills each point once, `make soak` also those that are passed again."""
    lake = two_tables
    points = points_passed(lake, tmp_path / "trace", "version", "tag", "sales.*", "undisturbed")
    assert points.count("commit.landed") == points.count("action.journaled") == 2
    files = {name: len(lake.metadata_files(name)) for name in TABLES}

    for number, point in enumerate(points, start=1):
        if not soaking and point in points[: number - 1]:
            continue
        tag = f"r{number}"
        killing.kill(lake, number, point, "version", "tag", "sales.*", tag)
        if point != "commit.landed":
            killing.bury(lake)
        if point == "operation.leased":  # nothing is written down before that: nothing has begun
            assert all(tag not in lake.refs(name) for name in TABLES)
            lake.warden.version.tag("sales.*", tag).apply()
        elif point != "operation.done":
            (resumed,) = lake.warden.operation.resume(wait="10s")
            assert resumed.state == "done", point

        for name in TABLES:  # the very state of an undisturbed run: the tag once, by one commit, and nothing else
            assert lake.refs(name)[tag] == lake.head(name), point
            files[name] += 1
            assert len(lake.metadata_files(name)) == files[name], point
        newest = lake.warden.operation.list(limit=1)[0]
        assert (newest.state, newest.done) == ("done", 2), point
    assert {row.state for row in lake.warden.operation.list(limit=500)} == {"done"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_a_rollback_in_two_statements_killed_between_them(tmp_path: Path) -> None:
    """Format v3: each statement is a commit of its own, on Spark."""
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        lake.create(format=3)
        newest, *_, oldest = lake.warden.version.list("sales.orders")
        rollback = ("version", "rollback", f"sales.orders@{oldest.snapshot_id}", "--apply")

        killing.kill(lake, "commit.statement", "commit.statement", *rollback)
        left = f"before-rollback-{newest.snapshot_id}"
        assert lake.refs() == {"main": newest.snapshot_id, left: newest.snapshot_id}
        (resumed,) = lake.warden.operation.resume(wait="10s")
        assert resumed.state == "done"

        assert lake.refs() == {"main": oldest.snapshot_id, left: newest.snapshot_id}
        assert [row.state for row in lake.warden.operation.list()] == ["done"]


@SQLITE_FIRST
def test_a_dead_holder_on_this_host_keeps_nothing(two_tables: SmallLake) -> None:
    lake = two_tables
    lake.run("version", "tag", "sales.a", "v1", failpoints="kill@subject.leased", check=None)
    assert lake.warden.ground.leases.held() == []
    lake.warden.version.tag("sales.a", "v3").apply()
    assert "v3" in lake.refs("sales.a")
    lake.run("operation", "resume")
    assert "v1" in lake.refs("sales.a")


@SQLITE_FIRST
def test_a_dead_holder_elsewhere_keeps_its_table_no_longer_than_the_timeout(
    two_tables: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a process of another host has ended cannot be seen."""
    lake = two_tables
    lake.run("version", "tag", "sales.a", "v1", failpoints="kill@subject.leased", check=None)
    monkeypatch.setattr(processes, "_place", lambda: "another-boot/1")
    (dead,) = [lease for lease in lake.warden.ground.leases.held() if lease.key.startswith("table:")]

    lake.warden.version.tag("sales.a", "v3").apply(wait=timedelta(seconds=10))

    assert "v3" in lake.refs("sales.a")
    (row,) = lake.warden.operation.list(state=["done"])
    shown = lake.warden.operation.show(row.id)
    assert dead.expires_at <= shown.steps[0].at <= dead.expires_at + timedelta(seconds=5)


def test_leases_last_sixty_seconds_unless_configured(lake: SmallLake) -> None:
    assert lake.warden.ground.settings.leases.timeout.total_seconds() == 60


@pytest.fixture
def many_tables(tmp_path: Path, state_url: str) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake", state_url, lease_timeout="2s") as lake:
        for name in MANY:
            lake.create(name, appends=1)
        yield lake


def tag_side_by_side(lake: SmallLake, tag: str, failpoints: str) -> subprocess.Popen[str]:
    """Tag all tables, three at once, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", SIDE_BY_SIDE, "--config", str(lake.folder), "version", "tag", "sales.*", tag],
        env=lake.environment(failpoints),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def commits_to(lake: SmallLake, name: str) -> int:
    """How many there were. A metadata file that no commit led to may lie there, left by a thread that was cut off."""
    return len(lake.catalog.load_table(name).metadata.metadata_log)


@pytest.mark.slow
@SQLITE_FIRST
def test_tables_side_by_side_killed_in_the_midst_of_several(
    many_tables: SmallLake, tmp_path: Path, soaking: bool
) -> None:
    lake, trace = many_tables, tmp_path / "trace"
    run = ("version", "tag", "sales.*", "undisturbed")
    killing.run(lake, *run, failpoints=f"trace:{trace}", first=FIRST_TWO_TOGETHER)
    points = trace.read_text().split()
    assert points.count("action.journaled") == len(MANY)
    assert points[: points.index("subject.released")].count("subject.leased") > 1  # several were held at once
    commits = {name: commits_to(lake, name) for name in MANY}

    for number in range(4, len(points), len(points) // (8 if soaking else 3)):
        tag = f"r{number}"
        killing.kill(lake, number, points[number - 1], "version", "tag", "sales.*", tag, first=THREE_AT_ONCE)
        if number > 4:
            killing.bury(lake)
        (resumed,) = lake.warden.operation.resume(wait="10s")
        assert (resumed.state, resumed.done) == ("done", len(MANY)), number
        for name in MANY:
            assert lake.refs(name)[tag] == lake.head(name), number
            commits[name] += 1
            assert commits_to(lake, name) == commits[name], number


@POSTGRES_FIRST
def test_tables_side_by_side_are_all_left_between_two_actions_by_an_interrupt(
    many_tables: SmallLake, tmp_path: Path
) -> None:
    lake, gate = many_tables, tmp_path / "gate"
    running = tag_side_by_side(lake, "v1", f"wait@commit.ready:{gate}")
    while not gate.exists():
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert running.poll() is None  # one of them stands at its commit, and is waited for
    gate.unlink()
    _, err = running.communicate(timeout=60)

    (row,) = lake.warden.operation.list()
    assert (running.returncode, row.state) == (1, "paused"), err
    assert f"lakewarden operation resume {row.id}" in err
    assert lake.warden.ground.leases.held() == []
    (resumed,) = lake.warden.operation.resume(row.id)
    assert (resumed.state, resumed.done) == ("done", len(MANY))
    assert all(lake.refs(name)["v1"] == lake.head(name) for name in MANY)
