"""How tests are distributed to workers: a file at a time, the files with Spark first, so that both end together.

Each worker has one Spark session. Tests that start Spark only in separate processes form one lot, which shares the
servers. Workers know the marks of the tests that they collect, but the scheduler knows only names: the workers write
down which tests are in that lot. The scheduler keeps the order in which the workers collected the tests.
"""

from __future__ import annotations

import json
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_LOT = "own_processes"
_KEY = "lots_of_tests"
_lots = pytest.StashKey[Path]()


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A file at a time, but everything with the mark of the lot together."""

    @cached_property
    def _in_lot(self) -> frozenset[str]:
        return frozenset(json.loads(self.config.stash[_lots].read_text()))

    def _split_scope(self, nodeid: str) -> str:
        return _LOT if nodeid in self._in_lot else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.TemporaryDirectory(prefix="lakewarden-tests-")
    config.add_cleanup(folder.cleanup)
    config.stash[_lots] = Path(folder.name) / "lots"


def pytest_configure_node(node: Any) -> None:
    node.workerinput[_KEY] = str(node.config.stash[_lots])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker: the lot first, then files by how many of their tests use Spark, then the others by their length."""
    if _KEY in getattr(config, "workerinput", {}):
        with_spark, tests = dict[Path, int](), dict[Path, int]()
        for item in items:
            with_spark[item.path] = with_spark.get(item.path, 0) + bool(item.get_closest_marker("spark"))
            tests[item.path] = tests.get(item.path, 0) + 1
        items.sort(key=lambda item: (not item.get_closest_marker(_LOT), -with_spark[item.path], -tests[item.path]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker: write down which tests are in the lot, before their names are sent."""
    target = getattr(session.config, "workerinput", {}).get(_KEY)
    if target is not None:
        names = [item.nodeid for item in session.items if item.get_closest_marker(_LOT)]
        written = Path(f"{target}-{session.config.workerinput['workerid']}")  # type: ignore[attr-defined]
        written.write_text(json.dumps(names))
        written.replace(target)
