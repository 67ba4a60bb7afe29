"""The stores of nouns in the control database, as `lake.state`: one store per noun.

A noun with a store has its values and protocols in `records/`, its queries in a module here, and a line below. A
question or a plan gets a `StateReader`: by type, its stores cannot write.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar, overload

from lakewarden.records.erasure import TombstoneReader, Tombstones
from lakewarden.records.sequence import PositionReader, Positions
from lakewarden.state.database import Database
from lakewarden.state.positions import SqlPositions
from lakewarden.state.tombstones import SqlTombstones

Reading = TypeVar("Reading")
Writing = TypeVar("Writing")


class Store(Generic[Reading, Writing]):
    """One noun's store, read-only on a `StateReader`, writable on a `StateWriter`."""

    def __init__(self, open_on: Callable[[Database], Writing]) -> None:
        self._open_on = open_on

    @overload
    def __get__(self, state: StateWriter, owner: type) -> Writing: ...
    @overload
    def __get__(self, state: StateReader, owner: type) -> Reading: ...
    def __get__(self, state: StateReader, owner: type) -> Any:
        return self._open_on(state.database)


class StateReader:
    """The stores for questions and plans."""

    erasure: Store[TombstoneReader, Tombstones] = Store(SqlTombstones)
    sequence: Store[PositionReader, Positions] = Store(SqlPositions)

    def __init__(self, database: Database) -> None:
        self.database = database


class StateWriter(StateReader):
    """The stores for actions and controls."""

    def together(self) -> AbstractContextManager[object]:
        """One transaction for everything that this thread writes in it, to any store and to the journal."""
        return self.database.begin()
