"""Parts that several threads ask for at the same moment."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from lakewarden.made_once import made_once


class House:
    built = 0

    @made_once
    def wall(self) -> object:
        """A wall."""
        time.sleep(0.02)
        House.built += 1
        return object()

    @made_once
    def roof(self) -> tuple[object]:
        return (self.wall,)


def test_each_part_is_made_once_however_many_ask_for_it() -> None:
    House.built, house = 0, House()
    with ThreadPoolExecutor(8) as threads:
        found = set(map(id, threads.map(lambda n: house.wall if n % 2 else house.roof[0], range(16))))
    assert (len(found), House.built) == (1, 1)


def test_each_house_has_its_own() -> None:
    assert House().wall is not House().wall
    assert House.wall.__doc__ == "A wall."
