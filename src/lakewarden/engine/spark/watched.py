"""Watches a Spark job: reports its progress regularly, and cancels it on an interrupt or a pause."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from lakewarden.errors import LakewardenError

_LOOK_EVERY = 2.0  # seconds


class watched:
    """Calls `look` every few seconds while a job runs. An interrupt, in the body or in `look`, cancels the job."""

    def __init__(self, look: Callable[[], None], end_job: Callable[[], object]) -> None:
        self._look_at_it, self._end_job = look, end_job
        self._over = threading.Event()
        self._interrupt: KeyboardInterrupt | None = None
        self._thread = threading.Thread(target=self._look, name="watched job", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._end()
        if self._interrupt is not None:  # raised while the job ran: nothing is published
            raise self._interrupt

    def _look(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            try:
                self._look_at_it()
            except (LakewardenError, OSError):
                continue  # progress is not essential
            except KeyboardInterrupt as interrupt:
                self._interrupt = interrupt
                self._end()
                return

    def _end(self) -> None:
        """Cancel the job, whose tasks would otherwise continue to write files that nobody publishes."""
        with suppress(Exception):  # its files are swept when the operation is resumed
            self._end_job()
