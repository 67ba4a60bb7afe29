"""Python's garbage collector, paused while very many objects are made at once.

Parsing or copying metadata with many snapshots makes objects that all stay, and the collector would go through all of
them again and again: the time would grow faster than the metadata.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses = 0
_resumes = False


@contextmanager
def paused() -> Iterator[None]:
    """Pause collection in this process while the body runs, in whichever threads; one that is off stays off."""
    global _pauses, _resumes
    with _lock:
        if not _pauses:
            _resumes = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _resumes:
                gc.enable()
