"""A property that is computed once, on first use: other threads wait for the first.

`functools.cached_property` may compute it once for each thread that uses it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class made_once(Generic[Value]):  # a decorator, so lower case
    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> made_once[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> made_once[Value] | Value:
        if owner is None:
            return self
        made: dict[str, Any] = vars(owner)
        with made.setdefault("_making", RLock()):  # one lock for all: a property may use another
            if self._name not in made:
                made[self._name] = self._make(owner)
            value: Value = made[self._name]
            return value
