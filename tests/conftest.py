"""Fixtures that every test may ask for.

Spark is started once for a whole run: every installation in this process shares the engine underneath.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.lifecycle import failpoints
from tests.small_lake import SmallLake

if TYPE_CHECKING:
    from tests.services.postgres import Postgres

pytest_plugins = [
    "tests.side_by_side",
    "tests.quick_java",
    "tests.services.postgres",
    "tests.services.spark_servers",
    "tests.services.s3",
    "tests.services.s3_versions",
    "tests.services.rest_catalog",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=3, help="how often the tests in tests/soak go round")
    parser.addoption("--seed", type=int, default=20261115, help="what their random choices start from")
    parser.addoption("--all-readers", action="store_true", help="also older releases of Iceberg, and many more tables")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for PostgreSQL or for a folder, by fixture or by parameter, carries its mark."""
    for item in items:
        asked = [*getattr(item, "fixturenames", ()), *getattr(getattr(item, "callspec", None), "params", {}).values()]
        if "postgres" in asked or "migrated_postgres" in asked:
            item.add_marker(pytest.mark.postgres)
        if "tmp_path" in asked or "tmp_path_factory" in asked:
            item.add_marker(pytest.mark.files)


@pytest.fixture(params=["sqlite", "postgres"])
def state_url(request: pytest.FixtureRequest) -> str:
    """The control database, on each kind that is supported."""
    if request.param == "sqlite":
        return "sqlite:///lakewarden.db"
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.new_database()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SmallLake]:
    """An embedded lake with no tables."""
    with SmallLake(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def any_lake(tmp_path: Path, state_url: str) -> Iterator[SmallLake]:
    """A lake with no tables, on each kind of control database."""
    with SmallLake(tmp_path / "lake", state_url) as lake:
        yield lake


@pytest.fixture(params=[1, 2, pytest.param(3, marks=pytest.mark.spark)], ids=lambda version: f"v{version}")
def any_format(request: pytest.FixtureRequest) -> int:
    """Each table format."""
    return int(request.param)


@pytest.fixture
def orders(any_lake: SmallLake, any_format: int) -> SmallLake:
    """A lake with sales.orders in it: three versions, on each format and each kind of control database."""
    any_lake.create("sales.orders", any_format)
    return any_lake


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")
