"""A property that is made when it is first used, and once: several threads that ask for it wait for the first.

`functools.cached_property` makes it once for each thread that comes while the first is still at it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class made_once(Generic[Value]):  # a decorator, named as such
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
        with made.setdefault("_making", RLock()):  # one for all of them, as one may need another
            if self._name not in made:
                made[self._name] = self._make(owner)
            value: Value = made[self._name]
            return value
