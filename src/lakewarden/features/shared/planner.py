"""Planners of upkeep. A noun declares its planners in `features/NOUN/planners.py`; `policy run` calls them.

A planner reports what is wrong with a table and plans how to fix it. Planners of one table share their lookups.
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
from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.lifecycle.action import Outcome
from lakewarden.lifecycle.plan import Plan

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Reader, Writer

Made = TypeVar("Made")


class Place(IntEnum):
    """The order in which parts of upkeep are applied to a table."""

    FIRST = 0
    EXPIRE = 1
    METADATA = 2
    REWRITE = 3
    """It reads files: if Spark does it, any commit after planning makes its plan stale."""
    AFTER_REWRITE = 4
    LOOK = 5


@dataclass(frozen=True)
class Round:
    """One pass over many tables, for a plan or only for their health. What all tables need is made once."""

    lake: Reader
    kind: str = ""
    only: Collection[str] = ()
    """The parts to plan; empty if only the health is wanted."""
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
    """One table whose upkeep is planned. It is loaded once, and planners share lookups through `once`."""

    round: Round
    name: TableName
    _seen: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def lake(self) -> Reader:
        return self.round.lake

    @cached_property
    def table(self) -> Table:
        table = self.lake.tables.load(self.name)
        refuse_unsupported(table, self.name)
        return table

    def once(self, look: Callable[[TableUpkeep], Made]) -> Made:
        if look not in self._seen:
            self._seen[look] = look(self)
        seen: Made = self._seen[look]
        return seen

    def planned(self, *actions: Action) -> Plan:
        return Plan(self.round.kind, str(self.name), actions)


class ActionModule(Protocol):
    """Checks and applies the actions of a part; usually a module."""

    def holds(self, action: Action, lake: Reader) -> bool: ...
    def apply(self, action: Action, lake: Writer) -> Outcome: ...


@dataclass(frozen=True)
class Planner:
    """Plans and applies one part of upkeep."""

    name: str
    """For `policy run --only NAME`."""
    place: Place
    verbs: tuple[str, ...]
    """The verbs of its actions."""
    actions: ActionModule
    plan: Callable[[TableUpkeep], Plan]
    remedy: str = ""
    """The command that does only this part."""
    symptoms: Callable[[TableUpkeep], Mapping[str, int]] = lambda on: {}
    """Its counts, named as in `policy/condition.py`."""
    concluded: Callable[[dict[str, Any]], dict[str, Any]] = lambda result: result
    """Adds figures that are only known for the whole run, such as a percentage."""
    done_already: Callable[[Action, Writer], Outcome] = lambda action, lake: Outcome(action.expects)
    """As `Operation.done_already`, for its actions."""


@cache
def planners() -> tuple[Planner, ...]:
    """All planners, in the order in which their parts are applied."""
    modules = [f"{features.__name__}.{noun.replace('-', '_')}.planners" for noun in features.NOUNS]
    found = [planner for name in modules if find_spec(name) for planner in import_module(name).PLANNERS]
    return tuple(sorted(found, key=lambda planner: planner.place))


def planner_of(action: Action) -> Planner | None:
    """The planner that an action came from; None if it is no part of upkeep."""
    return next((planner for planner in planners() if action.verb in planner.verbs), None)


def actions_of(action: Action) -> ActionModule:
    planner = planner_of(action)
    assert planner is not None
    return planner.actions
