"""Parts of a table's upkeep: a noun declares those that it plans in `features/NOUN/planners.py`, and policy asks it.

A planner says what it would do about a table and what is wrong with it. Planners of one table share what they look up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lakewarden import features
from lakewarden.lifecycle.plan import Plan

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.action import Action, Outcome
    from lakewarden.lifecycle.ground import Reader, Writer

Made = TypeVar("Made")


class Place(IntEnum):
    """When a part is applied to a table, among the others."""

    FIRST = 0
    EXPIRE = 1
    METADATA = 2
    REWRITE = 3
    """It reads files, so where Spark does it, a commit in between makes its plan stale."""
    AFTER_REWRITE = 4
    LOOK = 5


@dataclass(frozen=True)
class Round:
    """One look at many tables, for a plan or only to see how they are. What all of them need is made once."""

    lake: Reader
    kind: str = ""
    only: Collection[str] = ()
    """The parts that are planned; none where tables are only looked at."""
    _made: dict[Any, Any] = field(default_factory=dict, repr=False)
    _lock: RLock = field(default_factory=RLock, repr=False)

    @property
    def plans(self) -> bool:
        return bool(self.only)

    def once(self, make: Callable[[Reader], Made]) -> Made:
        with self._lock:
            if make not in self._made:
                self._made[make] = make(self.lake)
            made: Made = self._made[make]
            return made


@dataclass(frozen=True)
class TableUpkeep:
    """One table whose upkeep is planned: loaded once, and what planners look up about it is looked up once."""

    round: Round
    name: TableName
    _seen: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def lake(self) -> Reader:
        return self.round.lake

    @cached_property
    def table(self) -> Table:
        return self.lake.tables.load(self.name)

    def once(self, look: Callable[[TableUpkeep], Made]) -> Made:
        if look not in self._seen:
            self._seen[look] = look(self)
        seen: Made = self._seen[look]
        return seen

    def planned(self, *actions: Action) -> Plan:
        return Plan(self.round.kind, str(self.name), actions)


class ActionModule(Protocol):
    """What looks up and applies the actions of a part: a module, mostly."""

    def holds(self, action: Action, lake: Reader) -> bool: ...
    def apply(self, action: Action, lake: Writer) -> Outcome: ...


@dataclass(frozen=True)
class Planner:
    """What plans one part of upkeep, and applies it."""

    name: str
    """The part's name: `policy run --only NAME`."""
    place: Place
    verbs: tuple[str, ...]
    """The verbs of its actions, by which they are found again."""
    actions: ActionModule
    plan: Callable[[TableUpkeep], Plan]
    remedy: str = ""
    """The command that does the same alone."""
    symptoms: Callable[[TableUpkeep], Mapping[str, int]] = lambda on: {}
    """What it counts, by the names of `policy/condition.py`."""
    concluded: Callable[[dict[str, Any]], dict[str, Any]] = lambda result: result
    """The measured result of a whole run, with what can only be said of the whole."""


@cache
def planners() -> tuple[Planner, ...]:
    """Every planner of every noun, in the order in which their parts are applied."""
    modules = [f"{features.__name__}.{noun.replace('-', '_')}.planners" for noun in features.NOUNS]
    found = [planner for name in modules if find_spec(name) for planner in import_module(name).PLANNERS]
    return tuple(sorted(found, key=lambda planner: planner.place))


def actions_of(action: Action) -> ActionModule:
    return next(planner.actions for planner in planners() if action.verb in planner.verbs)
