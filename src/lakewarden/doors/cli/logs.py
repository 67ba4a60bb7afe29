"""Redacts values in file paths before they are written to log files.

Tables that are partitioned by a key have its values in their paths, as in `email=a%40b.org/`, and libraries put paths
in their errors. A value that is erased later could not be removed from a log again.
"""

from __future__ import annotations

import logging
import re

_COMPONENT = re.compile(r"(?<=/)([^/=\s'\"]+)=[^/\s'\"]*")


def redacted(text: str) -> str:
    """The text with `*` in place of partition values in paths."""
    return _COMPONENT.sub(r"\1=*", text)


class RedactingFormatter(logging.Formatter):
    """Formats records and tracebacks with redacted paths."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
