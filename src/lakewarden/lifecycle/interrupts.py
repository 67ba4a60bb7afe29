"""Ctrl-C and SIGTERM, remembered until an operation acts on them.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. Code that it passes through may turn it into
another error, lose it in a finalizer, or install a handler of its own. So each signal is also counted here: a run looks
at the count before every action, and before it treats an error as a failure.

    with listening(SIGINT):             the signal is counted and raised
        with deferred() as lifted:      it is only counted: what must not be left halfway
            with lifted():              it is raised again, at once where one came meanwhile

The first signal stops a run between two steps, the second reports that this is under way, the third stops at once.
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
    """What came so far, and whether it may be raised now. Signals belong to a process, so there is one of these."""

    heard = 0
    is_deferred = False


def heard() -> bool:
    """Whether a signal came since somebody listens."""
    return _Signals.heard > 0


def mind() -> None:
    """Raise the interrupt that came, wherever it was lost."""
    if heard():
        raise KeyboardInterrupt


def listen(*signals: signal.Signals) -> dict[signal.Signals, Any]:
    """Own these signals from now on; answers with the handlers that were there before.

    A signal that is ignored, as by nohup, stays ignored. Only the main thread receives any.
    """
    before = {each: signal.getsignal(each) for each in signals} if _is_main() else {}
    before = {each: handler for each, handler in before.items() if handler not in (signal.SIG_IGN, None, _hear)}
    for each in before:
        signal.signal(each, _hear)
    return before


@contextmanager
def listening(*signals: signal.Signals) -> Iterator[None]:
    """Own these signals while the body runs, unless somebody does already."""
    before = listen(*signals)
    is_unanswered = False
    try:
        yield
        is_unanswered = heard() and bool(before)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if before:
            _Signals.heard = 0
    if is_unanswered:  # all was done when it came: it is for the caller
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Only remember signals while the body runs. In what it yields they are raised as they were before."""
    if not _is_main():
        yield nullcontext
        return
    before, _Signals.is_deferred = _Signals.is_deferred, True

    @contextmanager
    def lifted() -> Iterator[None]:
        _Signals.is_deferred = before
        try:
            if not before:
                mind()
            yield
        finally:
            _Signals.is_deferred = True

    try:
        yield lifted
    finally:
        _Signals.is_deferred = before


def _hear(number: int, frame: FrameType | None) -> None:
    _Signals.heard += 1
    if _Signals.heard == _AT_ONCE - 1:
        says = "stopping: the step under way is brought to a safe end; a third Ctrl-C stops at once"
        threading.Thread(target=log.info, args=(says,)).start()  # printing here could meet a half-printed line
    elif _Signals.heard >= _AT_ONCE or not _Signals.is_deferred:
        raise KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
