"""Pauses Python's garbage collector while very many objects are created.

Parsing or copying metadata with many snapshots creates objects that all stay alive. The collector would traverse them
again and again, so that the time would grow faster than the metadata.
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
    """Pause collection for the whole process while the body runs. If it is off already, it stays off."""
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
