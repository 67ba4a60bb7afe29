"""Staging branches of killed runs, removed while others are at them. Covers `engine/commit/staging.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.engine.commit.staging import Staging
from lakewarden.lifecycle.failpoints import when
from lakewarden.warden import Workbench
from tests.engine.lakes import STAMP, unfenced
from tests.small_lake import SCHEMA, SmallLake

NAME = "sales.orders"
BRANCH = f"lakewarden-staging-{STAMP.operation}-{STAMP.action}-12345678-deadbeef"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SmallLake]:
    with SmallLake(tmp_path) as made:
        made.create()
        table = made.catalog.load_table(NAME)
        table.manage_snapshots().create_branch(made.head(), BRANCH).commit()
        write(made)
        yield made


def write(lake: SmallLake) -> None:
    """What a Spark server does that outlives its client."""
    rows = pa.table({"id": [100], "city": ["Oslo"]}, SCHEMA)
    lake.catalog.load_table(NAME).append(rows, branch=BRANCH)


def staging(lake: SmallLake) -> Staging:
    return Workbench(lake.warden.ground, STAMP, unfenced, lambda *_: None).staging


def test_a_branch_that_is_still_written_to_is_left_for_the_next_run(lake: SmallLake) -> None:
    when("commit.ready", lambda: write(lake))
    assert staging(lake).sweep(f"main.{NAME}") == 0
    assert BRANCH in lake.refs()
    assert staging(lake).sweep(f"main.{NAME}") == 1
    assert [*lake.refs()] == ["main"]


def test_two_runs_remove_one_branch(lake: SmallLake) -> None:
    when("commit.ready", lambda: staging(lake).sweep(f"main.{NAME}"))
    staging(lake).sweep(f"main.{NAME}")
    assert [*lake.refs()] == ["main"]
