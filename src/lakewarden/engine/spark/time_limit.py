"""Interrupts the statements of a Spark session that take too long, over Spark Connect too."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakewarden.engine.spark.watched import watched
from lakewarden.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TookTooLong(SparkUnavailable):
    code = "took-too-long"


@contextmanager
def within(session: SparkSession, seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Interrupt the statements of the body after a time, on Ctrl-C, or when `look` asks for it."""
    tag, is_late = f"lakewarden-{uuid.uuid4().hex}", threading.Event()

    def interrupt() -> None:
        if not session.interruptTag(tag):  # without Spark Connect, a tag is known to its own thread only
            session.interruptAll()

    def late() -> None:
        is_late.set()
        interrupt()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), late)
    timer.daemon = True
    session.addTag(tag)
    timer.start()
    try:
        with watched(look, interrupt):
            yield
    except Exception as error:
        if is_late.is_set():
            raise TookTooLong(f"Spark took longer than {seconds:g} s", "Raise timeout_seconds.") from error
        raise
    finally:
        timer.cancel()
        session.removeTag(tag)
