"""A lake behind the REST door."""

from __future__ import annotations

import pytest

from tests.doors.rest.client import Client
from tests.small_lake import SmallLake


@pytest.fixture
def client(lake: SmallLake) -> Client:
    """The door of a lake with sales.orders in it: three versions."""
    lake.create("sales.orders")
    return Client(lake.warden)


@pytest.fixture(scope="session")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    """A lake that no test changes: sales.orders with three versions, the last of them tagged v1."""
    lake = SmallLake(tmp_path_factory.mktemp("rest") / "lake")
    lake.create("sales.orders")
    lake.warden.version.tag("sales.orders", "v1").apply()
    return lake


@pytest.fixture(scope="session")
def shared(shared_lake: SmallLake) -> Client:
    """The door of the lake that no test changes."""
    return Client(shared_lake.warden)
