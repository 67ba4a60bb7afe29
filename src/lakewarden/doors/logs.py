"""Keeps values of rows out of log files: partition values in paths, and the messages of exceptions.

Tables that are partitioned by a key have its values in their paths, as in `email=a%40b.org/`, and libraries put paths
and values in their errors. So a traceback is logged with its frames and the names of the exceptions only.
"""

from __future__ import annotations

import logging
import re
import traceback
from types import TracebackType

_COMPONENT = re.compile(r"(?<=/)([^/=\s'\"]+)=[^/\s'\"]*")


def redacted(text: str) -> str:
    """The text with `*` in place of partition values in paths."""
    return _COMPONENT.sub(r"\1=*", text)


def frames(error: BaseException) -> str:
    """A traceback without the messages of the exceptions, which may quote rows."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = f"{frames(before)}\nthen:\n" if before is not None else ""
    stack = "".join(traceback.format_tb(error.__traceback__))
    return f"{earlier}{stack}{type(error).__module__}.{type(error).__qualname__}"


class RedactingFormatter(logging.Formatter):
    """Formats records with redacted paths, and tracebacks without messages."""

    def formatException(
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return frames(ei[1]) if ei[1] is not None else ""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
