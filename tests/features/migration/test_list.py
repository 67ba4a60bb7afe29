"""`migration list`."""

from __future__ import annotations

import pytest

from lakewarden.errors import BadValue
from tests.features.backfill.shop import Shop
from tests.small_lake import SmallLake


def test_migrations_are_listed_by_number(lake: SmallLake) -> None:
    shop = Shop(lake)
    for name in ("10_b", "9_a"):
        (shop.folder / f"{name}.migration.sql").write_text("CREATE TABLE {db}.t (id INT); DROP TABLE {db}.t;")
    rows = lake.warden.migration.list(database="shop")
    assert [(row.version, row.name, row.status, row.statements) for row in rows] == [
        ("9", "a", "pending", 2),
        ("10", "b", "pending", 2),
    ]
    (shop.folder / "009_a.migration.sql").write_text("")
    with pytest.raises(BadValue, match="have the same version"):
        lake.warden.migration.list(database="shop")


def test_without_folders_the_configuration_is_named(lake: SmallLake) -> None:
    with pytest.raises(BadValue, match="names no folder"):
        lake.warden.migration.list(database="shop")
