"""Backfills, view sets and archives while other engines expire, roll back, compact, upgrade and alter the same tables.

Every step is compared with a model. `make soak` walks ten times as many rounds as ROUNDS says, so 300 by default;
`make test` walks a few. The seed is printed where something fails, and `--seed` repeats it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.features.backfill.shop import Shop
from tests.features.sequence.old_orders import OldOrders
from tests.features.viewset.logs import Logs
from tests.services.mariadb import MariaDb
from tests.small_lake import SmallLake
from tests.walks.archives import ArchiveWalk
from tests.walks.backfills import BackfillWalk
from tests.walks.view_sets import ViewSetWalk

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LIFE = 25
"""Rounds of one lake: later ones are mostly refused, because too much of its past is gone."""
Walk = BackfillWalk | ViewSetWalk | ArchiveWalk
Begin = Callable[[Path, random.Random], Iterator[Walk]]


@pytest.fixture
def walk(soaking: bool, tmp_path: Path, pytestconfig: pytest.Config) -> Callable[[Begin], Counter[str]]:
    rounds, seed = int(pytestconfig.getoption("rounds")) * 10 if soaking else 8, int(pytestconfig.getoption("seed"))

    def walked(begin: Begin) -> Counter[str]:
        tally: Counter[str] = Counter()
        for life, first in enumerate(range(0, rounds, LIFE)):
            past: list[str] = []
            with contextmanager(begin)(tmp_path / str(life), random.Random(seed + life)) as one:
                for _ in range(first, min(first + LIFE, rounds)):
                    try:
                        past.append(one.round())
                    except BaseException as error:
                        error.add_note(f"seed {seed}, life {life}, after:\n" + "\n".join(past))
                        raise
            tally += one.tally
        return tally

    return walked


def test_a_backfill_among_others(walk: Callable[[Begin], Counter[str]]) -> None:
    def begin(folder: Path, chance: random.Random) -> Iterator[Walk]:
        with SmallLake(folder) as lake:
            yield BackfillWalk(Shop(lake), chance)

    tally = walk(begin)
    assert tally["run"] >= max(1, tally["run refused"]), tally  # each refusal was one that the model expects


def test_a_view_set_among_others(walk: Callable[[Begin], Counter[str]]) -> None:
    def begin(folder: Path, chance: random.Random) -> Iterator[Walk]:
        with SmallLake(folder) as lake:
            yield ViewSetWalk(Logs(lake), chance)

    tally = walk(begin)
    assert tally["materialize"] > tally["materialize refused"], tally


def test_an_archive_among_others(walk: Callable[[Begin], Counter[str]], mariadb: MariaDb) -> None:
    def begin(folder: Path, chance: random.Random) -> Iterator[Walk]:
        with SmallLake(folder) as lake:
            yield ArchiveWalk(OldOrders(lake, mariadb.new_database(), grace="0s"), chance)

    tally = walk(begin)
    assert tally["archive"] > tally["archive refused"], tally
