"""Fixtures that every test may ask for.

Spark is started once for a whole run: every installation in this process shares the engine underneath.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test

from lakewarden.lifecycle import failpoints
from tests import examples
from tests.cases import in_soak
from tests.small_lake import FORMATS, SQLITE, SmallLake

if TYPE_CHECKING:
    from tests.services.postgres import Postgres

pytest_plugins = [
    "tests.side_by_side",
    "tests.quick_java",
    "tests.services.postgres",
    "tests.services.mariadb",
    "tests.services.spark_servers",
    "tests.services.s3",
    "tests.services.s3_versions",
    "tests.services.rest_catalog",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run what `make test` leaves out or shortens, at full length")
    parser.addoption("--rounds", type=int, default=3, help="how many rounds the random tests run")
    parser.addoption("--seed", type=int, default=20261115, help="what their random choices start from")


def pytest_configure(config: pytest.Config) -> None:
    examples.load(soak=bool(config.getoption("soak")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses a server or a folder, by fixture or parameter; deselect what this kind of run does not need."""
    _mark(items)
    soak = bool(config.getoption("soak"))
    chosen = [item for item in items if _is_run(item, soak)]
    if len(chosen) < len(items):
        left_out = set(items).difference(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = chosen


def _is_run(item: pytest.Item, soak: bool) -> bool:
    """What is marked soak or rounds runs in `make soak` only; what `make test` shortens runs in both."""
    marked = any(item.get_closest_marker(mark) for mark in ("soak", "rounds"))
    shortened = "soaking" in getattr(item, "fixturenames", ()) or is_hypothesis_test(getattr(item, "obj", None))
    return marked or shortened if soak else not marked


def _mark(items: list[pytest.Item]) -> None:
    for item in items:
        asked = [*getattr(item, "fixturenames", ()), *getattr(getattr(item, "callspec", None), "params", {}).values()]
        if "postgres" in asked or "migrated_postgres" in asked:
            item.add_marker(pytest.mark.postgres)
        if "mariadb" in asked:
            item.add_marker(pytest.mark.mariadb)
        if "tmp_path" in asked or "tmp_path_factory" in asked:
            item.add_marker(pytest.mark.files)


@pytest.fixture
def soaking(pytestconfig: pytest.Config) -> bool:
    """Whether this is `make soak`: then a test tries every case, else the one where most is at stake."""
    return bool(pytestconfig.getoption("soak"))


@pytest.fixture(params=["postgres", *in_soak("sqlite")])
def state_url(request: pytest.FixtureRequest) -> str:
    """The control database, on each kind that is supported. In `make test` most others are on SQLite."""
    if request.param == "sqlite":
        return SQLITE
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.migrated_database()


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


@pytest.fixture(params=[pytest.param(orders, id=id, marks=marks) for id, (orders, marks) in FORMATS.items()])
def orders(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallLake]:
    """A lake with sales.orders in it: three versions, on each format, one of them with PostgreSQL for its state.

    Neither depends on the other: `any_lake` and `any_format` are for tests that need all of one kind.
    """
    format, database = request.param
    state = request.getfixturevalue("postgres").migrated_database() if database == "postgres" else SQLITE
    with SmallLake(tmp_path / "lake", state) as lake:
        lake.create("sales.orders", format)
        yield lake


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")
