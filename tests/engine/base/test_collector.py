"""The garbage collector is paused while bodies run, and is as it was afterwards."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from lakewarden.engine.base.collector import paused


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


def test_it_is_paused_until_the_last_body_ends() -> None:
    gc.enable()
    inner, outer = threading.Event(), threading.Event()

    def other() -> None:
        with paused():
            inner.set()
            outer.wait(10)

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        assert inner.wait(10) and not gc.isenabled()
    assert not gc.isenabled()  # the other thread's body runs still
    outer.set()
    thread.join()
    assert gc.isenabled()


def test_it_goes_on_after_an_error_and_stays_off_where_it_was_off() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="x"), paused():
        raise ValueError("x")
    assert gc.isenabled()
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()
