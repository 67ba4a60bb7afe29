"""What grows with a lake grows in proportion to it: counted in steps, loads and bytes, never by a clock."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.scale import make_table
from lakewarden import Warden
from lakewarden.features.lake.init import Init

FEW, MANY = 500, 2_500


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with few files and with many, in one partition and in a hundred."""
    folder = tmp_path_factory.mktemp("lake")
    Init(directory=folder).make()
    with Warden.open(folder) as warden:
        warden.ground.catalogs.get("main").create_namespace("bench")
        for files in (2, FEW, MANY):
            make_table(warden, f"bench.one{files}", snapshots=1, files=files)
            make_table(warden, f"bench.many{files}", snapshots=1, files=files, partitions=100)
    return folder


@pytest.mark.parametrize("partitions", ["one", "many"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda warden, table: warden.table.health(table),
        lambda warden, table: warden.compaction.analyze(table),
        lambda warden, table: warden.compaction.compact(table),
        lambda warden, table: warden.policy.run(table),
    ],
    ids=["health", "analyze", "compact", "policy run"],
)
def test_a_file_takes_less_than_a_kilobyte(lake: Path, ask: Callable[[Warden, str], Any], partitions: str) -> None:
    def peak(files: int) -> int:
        with Warden.open(lake) as warden:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            ask(warden, f"bench.{partitions}{files}")
            return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        peak(2)
        assert (peak(MANY) - peak(FEW)) / (MANY - FEW) < 1024
    finally:
        tracemalloc.stop()
