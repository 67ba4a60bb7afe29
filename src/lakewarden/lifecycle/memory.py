"""What an operation keeps while it runs: one value of each kind, which the run hands it and forgets at its end.

A request is frozen and may be applied several times, so nothing of a run is kept in it.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, TypeVar

Kept = TypeVar("Kept")


class Memory:
    """The values of one run. Subjects may be worked on side by side, so they are made under a lock."""

    def __init__(self) -> None:
        self._values: dict[type, Any] = {}
        self._lock = RLock()

    def of(self, kind: type[Kept]) -> Kept:
        """The one value of this kind, made when it is first asked for."""
        with self._lock:
            if kind not in self._values:
                self._values[kind] = kind()
            value: Kept = self._values[kind]
            return value
