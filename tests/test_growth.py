"""What grows with a lake grows in proportion to it: counted in steps, loads and bytes, never by a clock.

Covers `engine/catalog/known_metadata.py`.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.scale import make_table
from lakewarden import Warden
from lakewarden.errors import LakewardenError
from lakewarden.features.lake.init import Init
from tests.cases import in_soak
from tests.metadata_parsed import metadata_parsed

FEW, MANY = 500, 2_500
TABLES = 3


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
        warden.ground.catalogs.get("main").create_namespace("tagged")
        for number in range(TABLES):
            make_table(warden, f"tagged.t{number}", snapshots=1, files=1)
    return folder


@pytest.mark.parametrize("partitions", ["many", *in_soak("one")])
@pytest.mark.parametrize(
    "ask",
    [
        lambda warden, table: warden.table.health(table),
        lambda warden, table: warden.compaction.compact(table),
        lambda warden, table: warden.policy.run(table),
        *in_soak(lambda warden, table: warden.compaction.analyze(table)),
    ],
    ids=["health", "compact", "policy run", "analyze"],
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


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return metadata_parsed(monkeypatch)


def test_a_metadata_file_is_parsed_once(lake: Path, parsed: list[str]) -> None:
    """A tag over many tables looks at each before, while and after it is tagged."""
    with Warden.open(lake) as warden:
        warden.version.tag("tagged.*", "v1").apply()
        assert len(parsed) == len(set(parsed)) == TABLES  # what was committed is known
        parsed.clear()
        warden.version.list("tagged.t0")
        assert parsed == []


def test_a_table_is_loaded_once_a_step(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned, looked at and checked, routed, committed (where the catalog looks again by itself) and verified."""
    with Warden.open(lake) as warden:
        catalog = warden.ground.catalogs.get("main")
        loads: list[Any] = []
        load = catalog.load_table

        def counted(identifier: Any) -> Any:
            loads.append(identifier)
            return load(identifier)

        monkeypatch.setattr(catalog, "load_table", counted)
        warden.version.tag("tagged.t0", "v2").apply()
        assert len(loads) == 6


def test_a_metadata_file_that_is_gone_is_not_answered_from_memory(tmp_path: Path) -> None:
    Init(directory=tmp_path).make()
    with Warden.open(tmp_path) as warden:
        warden.ground.catalogs.get("main").create_namespace("bench")
        make_table(warden, "bench.t", snapshots=1, files=1)
        assert warden.version.list("bench.t")
        file = Path(warden.ground.tables.load("bench.t").metadata_location.removeprefix("file://"))
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        with pytest.raises(LakewardenError):
            warden.version.list("bench.t")
        file.unlink()
        with pytest.raises(LakewardenError):
            warden.version.list("bench.t")
        file.write_bytes(content)
        assert warden.version.list("bench.t")
