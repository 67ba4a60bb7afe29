"""A process killed between any two steps, and what `operation resume` makes of it (invariant 6).

A traced run tells every point that a run passes; then a run is killed at each of them in turn, in a
process of its own, on a real lake, and resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.small_lake import SmallLake

TABLES = ("sales.a", "sales.b")


@pytest.fixture
def two_tables(tmp_path: Path, state_url: str) -> Iterator[SmallLake]:
    """Two tables, and leases that a dead process does not keep for long."""
    with SmallLake(tmp_path / "lake", state_url, lease_timeout="2s") as lake:
        for name in TABLES:
            lake.create(name, appends=1)
        yield lake


def points_passed(lake: SmallLake, trace: Path, *arguments: str) -> list[str]:
    lake.run(*arguments, failpoints=f"trace:{trace}")
    return trace.read_text().split()


def test_an_operation_of_two_actions_killed_at_every_step(two_tables: SmallLake, tmp_path: Path) -> None:
    lake = two_tables
    points = points_passed(lake, tmp_path / "trace", "version", "tag", "sales.*", "undisturbed")
    assert points.count("commit.landed") == points.count("action.journaled") == 2
    files = {name: len(lake.metadata_files(name)) for name in TABLES}

    for number, point in enumerate(points, start=1):
        tag = f"r{number}"
        killed = lake.run("version", "tag", "sales.*", tag, failpoints=f"kill@{number}", check=None)
        assert killed.returncode == -9, f"not killed at {point}: {killed.stderr}"
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
def test_a_rollback_in_two_statements_killed_between_them(tmp_path: Path) -> None:
    """Format v3: each statement is a commit of its own, on Spark."""
    with SmallLake(tmp_path / "lake", lease_timeout="2s") as lake:
        lake.create(format=3)
        newest, *_, oldest = lake.warden.version.list("sales.orders")
        rollback = ("version", "rollback", f"sales.orders@{oldest.snapshot_id}", "--apply")

        killed = lake.run(*rollback, failpoints="kill@commit.statement", check=None)
        assert killed.returncode == -9
        left = f"before-rollback-{newest.snapshot_id}"
        assert lake.refs() == {"main": newest.snapshot_id, left: newest.snapshot_id}
        lake.run("operation", "resume", "--wait", "10s")

        assert lake.refs() == {"main": oldest.snapshot_id, left: newest.snapshot_id}
        assert [row.state for row in lake.warden.operation.list()] == ["done"]


def test_a_dead_holder_keeps_its_table_no_longer_than_the_timeout(two_tables: SmallLake) -> None:
    lake = two_tables
    lake.run("version", "tag", "sales.a", "v1", failpoints="kill@table.leased", check=None)
    (dead,) = [lease for lease in lake.warden.ground.leases.held() if lease.key.startswith("table:")]

    lake.warden.version.tag("sales.a", "v3").apply(wait=timedelta(seconds=10))

    assert "v3" in lake.refs("sales.a")
    (row,) = lake.warden.operation.list(state=["done"])
    shown = lake.warden.operation.show(row.id)
    assert dead.expires_at <= shown.steps[0].at <= dead.expires_at + timedelta(seconds=5)


def test_leases_last_sixty_seconds_unless_configured(lake: SmallLake) -> None:
    assert lake.warden.ground.settings.leases.timeout.total_seconds() == 60
