"""What an operation keeps while it runs: one value per type, which the run discards at its end.

A request is frozen and may be applied several times, so it keeps no state of a run.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, TypeVar

Kept = TypeVar("Kept")


class Memory:
    """The values of one run, created under a lock because subjects may run in parallel."""

    def __init__(self) -> None:
        self._values: dict[type, Any] = {}
        self._lock = RLock()

    def of(self, kind: type[Kept]) -> Kept:
        """The value of this type, created on first use."""
        with self._lock:
            if kind not in self._values:
                self._values[kind] = kind()
            value: Kept = self._values[kind]
            return value
