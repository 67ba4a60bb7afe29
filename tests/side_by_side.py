"""How tests are shared out between workers: all that need Spark go to one, so that there is one session of it.

Those that start Spark only in processes of their own are another lot, which shares servers. The rest goes by file, so
that what a file makes for its tests is made once. Workers know which tests need Spark, since they collect them, and
whoever shares them out knows only names: the workers write those down.
"""

from __future__ import annotations

import json
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_MARKS = ("own_processes", "spark")
_KEY = "lots_of_tests"
_lots = pytest.StashKey[Path]()


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """By file, but everything with Spark together."""

    @cached_property
    def _by_name(self) -> dict[str, str]:
        return dict(json.loads(self.config.stash[_lots].read_text()))

    def _split_scope(self, nodeid: str) -> str:
        return self._by_name.get(nodeid) or nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    return OneSpark(config, log)


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.TemporaryDirectory(prefix="lakewarden-tests-")
    config.add_cleanup(folder.cleanup)
    config.stash[_lots] = Path(folder.name) / "lots"


def pytest_configure_node(node: Any) -> None:
    node.workerinput[_KEY] = str(node.config.stash[_lots])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker: write down which test is of which lot, before the names are sent."""
    told = getattr(session.config, "workerinput", {}).get(_KEY)
    if told is not None:
        marked = ((item.nodeid, [mark for mark in _MARKS if item.get_closest_marker(mark)]) for item in session.items)
        lots = {name: marks[0] for name, marks in marked if marks}
        written = Path(f"{told}-{session.config.workerinput['workerid']}")  # type: ignore[attr-defined]
        written.write_text(json.dumps(lots))
        written.replace(told)
