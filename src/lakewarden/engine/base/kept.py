"""A cache, limited in size, of what was read from files that never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """An LRU cache by path, limited by total weight; the newest entry stays whatever its weight."""

    def __init__(self, most: int, weigh: Callable[[Value], int]) -> None:
        self.weight = 0
        self._most = most
        self._weigh = weigh
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, path: str, read: Callable[[], Value]) -> Value:
        """The cached value of a path, or what `read` returns."""
        with self._lock:
            if path in self._values:
                self._values.move_to_end(path)
                return self._values[path][0]
        found = read()
        weight = self._weigh(found)
        with self._lock:
            if path not in self._values:
                self._values[path] = found, weight
                self.weight += weight
            while self.weight > self._most and len(self._values) > 1:
                self.weight -= self._values.popitem(last=False)[1][1]
        return found
