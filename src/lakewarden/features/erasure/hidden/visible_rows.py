"""Finds the rows of open requests that versions of a table still show to other engines, by file and position.

Files never change, so each is searched once, however many branches and tags share it. A row that two requests cover is
tracked for each of them: a hide file counts only for the requests that it serves. In format v3 it counts for all of
them: no hide file is written there, and Spark cannot delete a row that one masks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lakewarden.engine.rows.position_deletes import named_positions, served_requests
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.engine.rows.search import search
from lakewarden.engine.rows.shares import Owners
from lakewarden.features.erasure.requests.spelling import new_spellings, with_spellings
from lakewarden.records.erasure import ErasureState

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.files.live_files import DeleteFile, LiveFile
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.records.erasure import HiddenKey

_READERS = 4
_KEPT = 8  # cached results, by table and requests


@dataclass(frozen=True)
class ShownIn:
    """A data file with visible rows, and their positions by request."""

    file: LiveFile = field(repr=False)
    positions: Mapping[str, frozenset[int]] = field(repr=False)
    hidden: frozenset[int] = field(default=frozenset(), repr=False)
    """Rows that hide files of this data file already list."""
    hide_files: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    """Those hide files by path, and the requests that each serves."""

    @property
    def all_positions(self) -> frozenset[int]:
        return frozenset[int]().union(*self.positions.values())

    @property
    def rows(self) -> int:
        return len(self.all_positions)


@dataclass(frozen=True)
class Shown:
    """The rows of the requests that a version shows."""

    files: tuple[ShownIn, ...] = ()

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def requests(self) -> tuple[str, ...]:
        return tuple(sorted({request for each in self.files for request in each.positions}))

    @property
    def has_equality_deletes(self) -> bool:
        """Whether equality deletes may already remove some of these rows: only Spark can apply those."""
        return any(delete.is_equality for each in self.files for delete in each.file.deletes)

    def without_equality_deletes(self) -> Shown:
        """Only rows in files without equality deletes, which are certainly visible."""
        return Shown(tuple(e for e in self.files if not any(delete.is_equality for delete in e.file.deletes)))

    def by_request(self) -> dict[str, int]:
        rows: Counter[str] = Counter()
        for each in self.files:
            for request, positions in each.positions.items():
                rows[request] += len(positions)
        return dict(sorted(rows.items()))


@dataclass
class _Known:
    """The positions found in data files for the same requests: neither the values of a request nor a file change."""

    looked_at: set[str] = field(default_factory=set)
    positions: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    """By file and request, for files that have such rows."""


@lru_cache(_KEPT)
def _known(uuid: str, *requests: str) -> _Known:
    """Shared by a plan, its action and its verification, which search the same files."""
    return _Known()


class VisibleRows:
    """Searches versions of one table for rows of open requests."""

    def __init__(self, lake: Reader, name: TableName, table: Table, requests: Sequence[str]) -> None:
        self._lake = lake
        self._table = table
        self._storage = lake.storage(name.lake)
        self._uuid = str(table.metadata.table_uuid)
        asked = lake.state.erasure.many(requests)
        self._requests = sorted(request.id for request in asked if request.state is ErasureState.OPEN)
        self._fields = {key.field_id for request in asked for key in request.keys if key.uuid == self._uuid}
        self._spelled = new_spellings(lake, name, table, self._requests)
        is_fixed = not any(request.folding for request in asked)  # otherwise spellings are added to the values
        self._known = _known(self._uuid, *self._requests) if is_fixed else _Known()
        self._named: dict[str, dict[str, set[int]]] = {}
        self._served: dict[str, frozenset[str]] = {}

    @cached_property
    def redaction(self) -> Redaction:
        """Redacts values in paths of the table."""
        return Redaction.of(self._table.metadata, self._fields)

    @cached_property
    def _owners(self) -> Owners:
        return Owners({request: self._keys([request]) for request in self._requests})

    def _keys(self, requests: Sequence[str]) -> list[HiddenKey]:
        return with_spellings(
            self._lake, self._lake.state.erasure.hidden(self._uuid, requests), self._spelled, requests
        )

    def at(self, snapshots: Sequence[Snapshot]) -> dict[int, Shown]:
        """The visible rows of each snapshot."""
        if not self._requests:
            return {snapshot.snapshot_id: Shown() for snapshot in snapshots}
        with self.redaction.of_errors():
            self._search(snapshots)
            return {snapshot.snapshot_id: self._shown(snapshot) for snapshot in snapshots}

    def _search(self, snapshots: Sequence[Snapshot]) -> None:
        """Search data files that were not searched yet."""
        known, live = self._known, self._lake.files.across(self._table, snapshots)[0]
        new = [
            snapshot.snapshot_id
            for snapshot in snapshots
            if any(f.path not in known.looked_at for f in self._lake.files.of(self._table, snapshot).bare)
        ]
        if not new:
            return
        keys = self._keys(self._requests)
        matches = search(self._table, keys, self._lake.files, self._storage, only=new).matches
        found = [live[p] for p, match in matches.items() if match.content == "data" and p not in known.looked_at]
        with ThreadPoolExecutor(_READERS, thread_name_prefix="hidden") as readers:
            look = readers.map(lambda file: self._owners.positions(self._table.metadata, self._storage, file), found)
            positions = {file.path: at for file, at in zip(found, look, strict=True)}
        known.positions |= positions
        known.looked_at |= live.keys()

    def _shown(self, snapshot: Snapshot) -> Shown:
        live = self._lake.files.of(self._table, snapshot).by_path
        files = [live[path] for path in sorted(self._known.positions) if path in live]
        self._read_deletes(files)
        shown = [self._shown_in(file) for file in files]
        return Shown(tuple(each for each in shown if each.positions))

    def _read_deletes(self, files: Sequence[LiveFile]) -> None:
        """Read the delete files of these data files that were not read yet."""
        wanted: dict[str, set[str]] = {}
        deletes: dict[str, DeleteFile] = {}
        for file in files:
            for delete in file.deletes:
                if file.path not in self._named.get(delete.identity, {}):
                    wanted.setdefault(delete.identity, set()).add(file.path)
                    deletes[delete.identity] = delete
        with ThreadPoolExecutor(_READERS, thread_name_prefix="hidden") as readers:
            named = readers.map(lambda id: named_positions(self._storage, deletes[id], wanted[id]), deletes)
            for id, found in zip(deletes, named, strict=True):
                self._named.setdefault(id, {}).update({path: found.get(path, set()) for path in wanted[id]})
            unread = [id for id in deletes if id not in self._served]
            served = readers.map(lambda id: served_requests(deletes[id].path, self._storage.open), unread)
            self._served |= dict(zip(unread, served, strict=True))

    def _shown_in(self, file: LiveFile) -> ShownIn:
        """The rows of each request that are neither deleted nor hidden for that request."""
        found = self._known.positions[file.path]
        deleted: set[int] = set()
        hidden: set[int] = set()
        hidden_for: dict[str, set[int]] = {}
        hide_files: dict[str, frozenset[str]] = {}
        for delete in file.deletes:
            named, served = self._named[delete.identity][file.path], self._served[delete.identity]
            if not served:
                deleted |= named
                continue
            hide_files[delete.path] = served
            hidden |= named
            for request in served & found.keys():
                hidden_for.setdefault(request, set()).update(named)
        if self._table.metadata.format_version > 2:  # what masks a row for one request masks it for all
            hidden_for = dict.fromkeys(found, hidden)
        left = {request: frozenset(at - deleted - hidden_for.get(request, set())) for request, at in found.items()}
        return ShownIn(file, {request: at for request, at in left.items() if at}, frozenset(hidden), hide_files)
