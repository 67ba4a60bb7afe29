"""Files of unfinished Lakewarden operations, which may still be committed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cached_property

from lakewarden.engine.base.file_naming import is_owned
from lakewarden.errors import OperationNotFound
from lakewarden.features.orphan.neighbours import is_metadata
from lakewarden.lifecycle.basics import Stamp
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.states import UNFINISHED, State

_MARK = re.compile(r"lw-(op-\d{8}-\d{6}-[0-9a-f]{6})")
_STRANGERS = timedelta(days=3)
_ALL = 10**9


class Unfinished:
    """Finds files of unfinished operations. The journal is opened only for files with Lakewarden's naming."""

    def __init__(self, lake: Reader) -> None:
        self._lake = lake
        self._now = lake.clock()
        self._states: dict[str, State | None] = {}

    def owns(self, path: str, modified_at: datetime) -> bool:
        """Whether an unfinished operation may have written a file.

        An operation that is not in the journal belongs to another installation and gets a few days to finish.
        """
        marked = _MARK.search(path)
        if marked is None:
            return is_metadata(path) and any(is_owned(path, stamp) for stamp in self._stamps)
        state = self._state(marked[1])
        return state in UNFINISHED if state is not None else modified_at > self._now - _STRANGERS

    def _state(self, operation: str) -> State | None:
        if operation not in self._states:
            try:
                self._states[operation] = self._lake.journal.get(operation).state
            except OperationNotFound:
                self._states[operation] = None
        return self._states[operation]

    @cached_property
    def _stamps(self) -> list[Stamp]:
        """The stamps of running operations, for metadata files, whose names do not identify the operation."""
        begun = self._lake.journal.list(states=sorted(UNFINISHED), limit=_ALL)
        return [Stamp(record.id, action.id, "") for record in begun for action in record.plan.actions]
