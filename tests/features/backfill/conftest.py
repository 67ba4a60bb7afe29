"""A shop, for every test of backfills."""

from __future__ import annotations

import pytest

from tests.features.backfill.shop import Shop
from tests.small_lake import SmallLake


@pytest.fixture
def shop(lake: SmallLake) -> Shop:
    return Shop(lake)
