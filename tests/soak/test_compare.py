"""Comparisons over many made-up histories, on both routes, against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.features.compare import made_histories
from tests.features.compare.test_data import check_history
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.slow, pytest.mark.soak]


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
