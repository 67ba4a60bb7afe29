r"""Ctrl-C and SIGTERM, remembered until an operation acts on them.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. Code on the way may turn it into another
error, lose it in a finalizer, or install another handler. So each signal is also counted here: a run checks the count
before every action, and before it treats an error as a failure.

    with listening(SIGINT):             signals are counted and raised
        with deferred() as lifted:      signals are only counted: for what must not stop halfway
            with lifted():              signals are raised again, at once if one is pending

The first signal stops a run between two steps, the second reports that it is stopping, the third stops it at once.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

_AT_ONCE = 3
log = logging.getLogger(__name__)


class _Signals:
    """The signals so far, and whether they may be raised now. One of these exists: signals are per process."""

    received = 0
    is_deferred = False


def received() -> bool:
    """Whether a signal was received since listening began."""
    return _Signals.received > 0


def raise_pending() -> None:
    """Raise the interrupt if a signal was received, wherever it was lost."""
    if received():
        raise KeyboardInterrupt


def listen(*signals: signal.Signals) -> dict[signal.Signals, Any]:
    """Handle these signals from now on, except ignored ones as under nohup; returns the previous handlers."""
    before = {each: signal.getsignal(each) for each in signals} if _is_main() else {}
    before = {each: handler for each, handler in before.items() if handler not in (signal.SIG_IGN, None, _receive)}
    for each in before:
        signal.signal(each, _receive)
    return before


@contextmanager
def listening(*signals: signal.Signals) -> Iterator[None]:
    """Handle these signals while the body runs, unless they are handled already."""
    before = listen(*signals)
    is_unanswered = False
    try:
        yield
        is_unanswered = received() and bool(before)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if before:
            _Signals.received = 0
    if is_unanswered:  # it came when all was done: let the caller handle it
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Only count signals while the body runs. Within the yielded context they are raised as before."""
    if not _is_main():
        yield nullcontext
        return
    before, _Signals.is_deferred = _Signals.is_deferred, True

    @contextmanager
    def lifted() -> Iterator[None]:
        _Signals.is_deferred = before
        try:
            if not before:
                raise_pending()
            yield
        finally:
            _Signals.is_deferred = True

    try:
        yield lifted
    finally:
        _Signals.is_deferred = before


def _receive(number: int, frame: FrameType | None) -> None:
    _Signals.received += 1
    if _Signals.received == _AT_ONCE - 1:
        says = "stopping: finishing the current step safely; a third Ctrl-C stops at once"
        threading.Thread(target=log.info, args=(says,)).start()  # logging in a signal handler could deadlock
    elif _Signals.received >= _AT_ONCE or not _Signals.is_deferred:
        raise KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
