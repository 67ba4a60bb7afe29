"""Rows of open requests that versions of a table still show to other engines: found, by position, file by file.

Files never change, so each is looked at once, however many branches and tags share it. A row that two requests name
is looked for by each of them: what hides it for one does not count for the other, since either may be withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lakewarden.engine.position_deletes import Owners, named_positions, request_of
from lakewarden.engine.search import search
from lakewarden.engine.veil import Veil

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.live_files import DeleteFile, LiveFile
    from lakewarden.engine.reference import TableName
    from lakewarden.lifecycle.ground import Reader

_READERS = 4


@dataclass(frozen=True)
class ShownIn:
    """A data file with rows that are to be hidden: for each request, where."""

    file: LiveFile = field(repr=False)
    positions: Mapping[str, frozenset[int]] = field(repr=False)

    @property
    def all_positions(self) -> frozenset[int]:
        return frozenset[int]().union(*self.positions.values())

    @property
    def rows(self) -> int:
        return len(self.all_positions)


@dataclass(frozen=True)
class Shown:
    """What a version shows of the requests' rows."""

    files: tuple[ShownIn, ...] = ()

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def requests(self) -> tuple[str, ...]:
        return tuple(sorted({request for each in self.files for request in each.positions}))

    @property
    def has_equality_deletes(self) -> bool:
        """Whether some of these rows may be deleted already, by value: only Spark can tell."""
        return any(delete.is_equality for each in self.files for delete in each.file.deletes)

    def without_equality_deletes(self) -> Shown:
        """Only what is in files that have none: these rows are surely shown."""
        return Shown(tuple(e for e in self.files if not any(delete.is_equality for delete in e.file.deletes)))

    def by_request(self) -> dict[str, int]:
        """How many rows each request has."""
        return {request: sum(len(each.positions.get(request, ())) for each in self.files) for request in self.requests}

    def delete_files(self) -> dict[tuple[str, int, tuple[object, ...]], list[ShownIn]]:
        """What goes into one file of deletes each: those of one request in one partition."""
        found: dict[tuple[str, int, tuple[object, ...]], list[ShownIn]] = {}
        for each in self.files:
            for request in each.positions:
                found.setdefault((request, *each.file.partition), []).append(each)
        return found


class Lookout:
    """Looks for rows of some open requests in versions of one table."""

    def __init__(self, lake: Reader, name: TableName, table: Table, requests: Sequence[str]) -> None:
        self._lake = lake
        self._table = table
        self._storage = lake.storage(name.lake)
        uuid = str(table.metadata.table_uuid)
        self._keys = lake.tombstones.hidden(uuid, requests) if requests else []
        self._owners = Owners({request: lake.tombstones.hidden(uuid, [request]) for request in requests})
        self._positions: dict[str, dict[str, set[int]]] = {}
        self._named: dict[str, dict[str, set[int]]] = {}

    @cached_property
    def veil(self) -> Veil:
        """What keeps values out of the paths that are told of the table."""
        return Veil.of(self._table.metadata, {key.field_id for key in self._keys})

    def at(self, snapshots: Sequence[Snapshot]) -> dict[int, Shown]:
        """What each of some snapshots shows."""
        if not self._keys:
            return {snapshot.snapshot_id: Shown() for snapshot in snapshots}
        ids = {snapshot.snapshot_id for snapshot in snapshots}
        with self.veil.over_errors():
            found = search(self._table, self._keys, self._lake.files, self._storage, only=ids)
            matching = {path for path, match in found.matches.items() if match.content == "data"}
            return {snapshot.snapshot_id: self._shown(snapshot, matching) for snapshot in snapshots}

    def _shown(self, snapshot: Snapshot, matching: set[str]) -> Shown:
        live = self._lake.files.of(self._table, snapshot).by_path
        files = [live[path] for path in sorted(matching) if path in live]
        self._read(files)
        shown = [ShownIn(file, self._left(file)) for file in files]
        return Shown(tuple(each for each in shown if each.positions))

    def _read(self, files: Sequence[LiveFile]) -> None:
        """Read what was not read yet: the key columns of data files, and which of their rows deletes name."""
        new = [file for file in files if file.path not in self._positions]
        wanted: dict[str, set[str]] = {}
        deletes: dict[str, DeleteFile] = {}
        for file in files:
            for delete in file.deletes:
                if file.path not in self._named.get(delete.identity, {}):
                    wanted.setdefault(delete.identity, set()).add(file.path)
                    deletes[delete.identity] = delete
        with ThreadPoolExecutor(_READERS, thread_name_prefix="hidden") as readers:
            positions = readers.map(lambda file: self._owners.positions(self._table.metadata, self._storage, file), new)
            named = readers.map(lambda id: named_positions(self._storage, deletes[id], wanted[id]), deletes)
            self._positions |= {file.path: found for file, found in zip(new, positions, strict=True)}
            for id, found in zip(deletes, named, strict=True):
                self._named.setdefault(id, {}).update({path: found.get(path, set()) for path in wanted[id]})

    def _left(self, file: LiveFile) -> dict[str, frozenset[int]]:
        """The rows of each request that neither deletes of others nor deletes for that very request mask."""
        found = self._positions[file.path]
        deleted = self._masked(file, (None,))
        left = {request: frozenset(at - deleted - self._masked(file, (request,))) for request, at in found.items()}
        return {request: at for request, at in left.items() if at}

    def _masked(self, file: LiveFile, hidden_for: Iterable[str | None]) -> set[int]:
        masking = [delete.identity for delete in file.deletes if request_of(delete.path) in hidden_for]
        return set[int]().union(*(self._named[id][file.path] for id in masking))
