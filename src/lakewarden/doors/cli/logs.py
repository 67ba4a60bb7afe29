"""What goes into log files: whatever went wrong, without what paths of files tell of people.

Tables that are partitioned by a key have its values in their paths, as in `email=a%40b.org/`, and libraries name
paths in what they raise. Whoever is erased later could not be taken out of a log again, so they do not come in.
"""

from __future__ import annotations

import logging
import re

_COMPONENT = re.compile(r"(?<=/)([^/=\s'\"]+)=[^/\s'\"]*")


def redacted(text: str) -> str:
    """A text with `*` for the values of partitions in its paths."""
    return _COMPONENT.sub(r"\1=*", text)


class RedactingFormatter(logging.Formatter):
    """Formats records, and their tracebacks, with a veil over paths."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
