"""Branching work on several threads: all of it is done, in bounded memory, and it can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lakewarden.engine.base.parallel import Branch, traverse


def below(number: int) -> Iterator[int | Branch[int]]:
    """A tree of ten branches at each number under a thousand."""
    yield number
    if number < 1000:
        yield from (Branch(number * 10 + digit) for digit in range(10))


@pytest.mark.parametrize("threads", [1, 4])
def test_everything_is_found_once(threads: int) -> None:
    found = sorted(traverse(range(1, 10), below, threads))
    assert found == list(range(1, 10_000))


def test_what_a_thread_raises_is_raised_where_the_results_are_taken() -> None:
    def fails(number: int) -> Iterator[int | Branch[int]]:
        if number == 77:
            raise OSError("the disk is gone")
        yield from below(number)

    with pytest.raises(OSError, match="the disk is gone"):
        list(traverse(range(1, 10), fails, 4))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("look-")]


def test_nobody_wants_the_rest() -> None:
    results = traverse(range(1, 10), below, 4, "unwanted")
    assert next(results) > 0
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("unwanted-")]


def test_threads_wait_until_somebody_takes_what_they_found() -> None:
    looked: list[int] = []

    def endless(number: int) -> Iterator[int | Branch[int]]:
        while True:
            looked.append(number)
            yield number

    results = traverse([1, 2], endless, 2)
    for _ in range(10):
        next(results)
    ahead = len(looked)
    results.close()
    assert ahead < 20_000


def test_nothing_to_do() -> None:
    nothing: list[int] = []
    assert list(traverse(nothing, below, 3)) == []
