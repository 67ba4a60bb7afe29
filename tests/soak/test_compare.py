"""Comparisons over many made-up histories, on both routes, against the oracle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.features.compare import made_histories
from tests.features.compare.test_data import check_history
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.slow, pytest.mark.soak]

COMPARE = """
import sys
from lakewarden import Warden
from lakewarden.engine.kernel.memory import peak_bytes
with Warden.open(sys.argv[1]) as warden:
    found = warden.compare.data("s.large", "v1", key="id")
    assert "in this process" in found.method, found.method
    print(found.rows_changed, found.rows_unchanged, peak_bytes() >> 20)
"""


@pytest.fixture(scope="module")
def one_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("compare") / "lake") as lake:
        yield lake


def rounds(request: pytest.FixtureRequest, one_lake: SmallLake, each: int) -> None:
    """Go through many histories; which ones depends on the seed only."""

    @seed(request.config.getoption("--seed"))
    @settings(
        max_examples=each * request.config.getoption("--rounds"),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(first=made_histories.rows, steps=made_histories.steps, keyed=st.booleans(), pick=st.integers(0, 10_000))
    def go(first: Any, steps: Any, keyed: bool, pick: int) -> None:
        check_history(one_lake, first, steps, keyed, pick)

    go()


def test_in_this_process(request: pytest.FixtureRequest, one_lake: SmallLake) -> None:
    rounds(request, one_lake, 10)


@pytest.mark.spark
def test_on_spark(request: pytest.FixtureRequest, one_lake: SmallLake) -> None:
    comparisons = one_lake.warden.ground.comparisons
    nothing = comparisons._settings.compare.model_copy(update={"in_process_mb": 0})
    comparisons._settings = comparisons._settings.model_copy(update={"compare": nothing})
    rounds(request, one_lake, 2)


def test_every_row_of_a_large_table_differs(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In this process a comparison keeps within its memory: what does not fit waits on disk."""
    each = 1_000_000 if request.config.getoption("--rounds") >= 10 else 200_000
    schema = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("note", pa.string())])
    with SmallLake(tmp_path / "lake") as lake:
        lake.catalog.create_namespace("s")
        table = lake.catalog.create_table("s.large", schema)
        for version in range(2):
            if version:
                lake.warden.version.tag("s.large", "v1").apply()
                table = lake.catalog.load_table("s.large")
                table.delete()
            for start in range(0, 10 * each, each):
                ids = np.arange(start, start + each)
                amounts = np.random.default_rng(start).random(each) + version
                columns = [pa.array(ids), pa.array(amounts), pa.array(ids).cast(pa.string())]
                table.append(pa.table(columns, schema=schema))
        folder = str(lake.folder)
    done = subprocess.run([sys.executable, "-c", COMPARE, folder], check=True, capture_output=True, text=True)
    changed, unchanged, peak = map(int, done.stdout.split())
    assert (changed, unchanged) == (10 * each, 0)
    assert peak <= 512, f"{peak} MB, where `compare: {{task_memory_mb: 512}}` allows 512"
