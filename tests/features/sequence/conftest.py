"""A database for each test, reached in both ways, and an installation without a lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden import Warden
from lakewarden.config import SequenceSettings
from tests.features.sequence.old_orders import OldOrders
from tests.services.mariadb import MariaDb, Shop
from tests.small_lake import SmallLake

ORDERS = "CREATE TABLE orders (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, created DATETIME) "


@pytest.fixture
def shop(mariadb: MariaDb) -> Shop:
    return mariadb.new_database()


@pytest.fixture(params=["dburl", "mariadb"])
def way(request: pytest.FixtureRequest) -> str:
    """The two kinds of connection."""
    return str(request.param)


@pytest.fixture
def sequences(shop: Shop, way: str) -> SequenceSettings:
    """Settings that reach the database in each way."""
    return SequenceSettings.model_validate({way: shop.dburl if way == "dburl" else shop.client})


@pytest.fixture
def install(tmp_path: Path, shop: Shop) -> Iterator[Any]:
    """Makes an installation without a lake, with these settings of sequences; all are closed at the end."""
    opened: list[Warden] = []

    def installed(**settings: Any) -> Warden:
        document = {"sequences": {"dburl": shop.dburl, "tables": {"orders": {}}, **settings}}
        (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump(document))
        opened.append(Warden.open(tmp_path))
        return opened[-1]

    yield installed
    for warden in opened:
        warden.close()


@pytest.fixture
def orders(lake: SmallLake, shop: Shop) -> OldOrders:
    return OldOrders(lake, shop)


@pytest.fixture
def archived(orders: OldOrders) -> OldOrders:
    """The same, after everything past retention was archived; for tests with Spark."""
    orders.warden.sequence.archive().apply()
    return orders
