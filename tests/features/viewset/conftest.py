"""A lake with log entries, for every test of view sets."""

from __future__ import annotations

import pytest

from tests.features.viewset.logs import Logs
from tests.small_lake import SmallLake


@pytest.fixture
def logs(lake: SmallLake) -> Logs:
    return Logs(lake)
