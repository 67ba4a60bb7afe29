"""Shows the rows of one request again: delete files that list them are replaced by files without them.

The key column determines which request a row belongs to. A row that another open request covers too stays hidden. An
already withdrawn request, such as after a rollback to a version that hides its rows, has no values any more: then all
rows that no open request covers are shown again, since they were hidden for withdrawn requests only.

Other engines, such as Spark, merge the deletes of a data file when they delete from it, and drop the hide file. They
did not see the hidden rows, so they cannot have deleted them: rows of the hide file are shown again from the merged
file as well. The evidence of each hide records which rows these are (`hidden_positions.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.delete_files import Unmask
from lakewarden.engine.rows.position_deletes import file_name, is_hide, named_positions, served_requests, write
from lakewarden.engine.rows.shares import Owners
from lakewarden.errors import BrokenTable, CatalogUnavailable, LakewardenError
from lakewarden.features.erasure.hidden.hidden_positions import carry, hidden_positions
from lakewarden.records.erasure import ErasureState

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import DeleteFile, LiveFile, SnapshotFiles
    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest


@dataclass(frozen=True)
class Revealed:
    """A delete file that lists rows of a request, and the rows that its replacement still lists, by data file."""

    file: DeleteFile = field(repr=False)
    rows: int
    """How many rows come back."""
    kept: Mapping[str, frozenset[int]] = field(repr=False)
    requests: frozenset[str]
    """The requests that the replacement serves; none if another engine wrote the file."""


def reveal(lake: Writer, name: str, uuid: str, request: ErasureRequest) -> tuple[int, int]:
    """Show the rows of a request again on all branches in one commit; returns the number of branches and files."""
    table = lake.tables.load(name)
    found = revealed(lake, name, table, request)
    if not found:
        return 0, 0
    written = dict(_written(lake, table, found))
    try:
        branches = lake.commits.publish(Unmask(name, uuid, written))
    except CatalogUnavailable:
        raise  # the commit may have landed: a second run checks
    except LakewardenError:
        for file in written.values():
            if file is not None:
                table.io.delete(file.file.file_path)
        raise
    return branches, len(found)


def revealed(lake: Reader, name: str, table: Table, request: ErasureRequest) -> list[Revealed]:
    """The delete files on branches to replace, so that exactly the rows of a request come back."""
    branches = sorted(name for name, ref in table.metadata.refs.items() if str(ref.snapshot_ref_type) == "branch")
    heads = {branch: table.snapshot_by_name(branch) for branch in branches}
    live = lake.files.across(table, [head for head in heads.values() if head is not None])[0]
    look = _Look(lake, name, table, request)
    found: dict[str, Revealed] = {}
    for branch, head in heads.items():
        files = lake.files.of(table, head)
        for delete in files.deletes:
            if delete.path not in found and request.id in served_requests(delete.path, files.opened):
                found[delete.path] = look.hide_file(delete, live, served_requests(delete.path, files.opened))
        if request.state is ErasureState.OPEN:
            found |= {one.file.path: one for one in look.merged(branch, files) if one.file.path not in found}
    return list(found.values())


def keep_hidden_for_others(lake: Writer, name: str, table: Table, request: ErasureRequest, step: str) -> None:
    """Record which rows in merged files stay hidden for other requests, before this request is withdrawn."""
    look = _Look(lake, name, table, request)
    for ref in sorted(n for n, ref in table.metadata.refs.items() if str(ref.snapshot_ref_type) == "branch"):
        look.note_shared(ref, lake.files.of(table, table.snapshot_by_name(ref)))
    for other, files in look.staying.items():
        carry(lake, name, str(table.metadata.table_uuid), f"{step}-{other}", [other], files)


class _Look:
    """Finds the requests whose rows delete files list."""

    def __init__(self, lake: Reader, name: str, table: Table, request: ErasureRequest) -> None:
        self._lake, self._table, self._request = lake, table, request
        self._storage: StoredFiles = lake.storage(lake.tables.name(name).lake)
        self._uuid = str(table.metadata.table_uuid)
        asked = lake.state.erasure.list([ErasureState.OPEN], self._uuid)
        self._owners = Owners({one.id: lake.state.erasure.hidden(self._uuid, [one.id]) for one in asked})
        self._open = {one.id for one in asked} - {request.id}
        self._is_open = request.state is ErasureState.OPEN
        self._known: dict[str, dict[str, set[int]]] = {}
        self.staying: dict[str, dict[str, set[int]]] = {}
        """Rows in merged files that stay hidden for other requests, by request and data file."""

    def hide_file(self, delete: DeleteFile, live: Mapping[str, LiveFile], served: frozenset[str]) -> Revealed:
        """The replacement of a hide file, without data files that are on no branch any more."""
        kept: dict[str, frozenset[int]] = {}
        rows, serving = 0, set(served - {self._request.id} if self._is_open else ())
        for path, named in named_positions(self._storage, delete).items():
            if path not in live:
                continue
            staying = self._staying(live[path], named)
            rows += len(named) - len(staying)
            serving |= {id for id, at in self._rows(live[path]).items() if id in self._open and at & staying}
            if staying:
                kept[path] = frozenset(staying)
        return Revealed(delete, rows, kept, frozenset(serving))

    def merged(self, branch: str, files: SnapshotFiles) -> Iterator[Revealed]:
        """The replacements of delete files in which another engine merged rows of a hide file."""
        back: dict[str, dict[str, set[int]]] = {}
        deletes: dict[str, DeleteFile] = {}
        for file, hidden in self._hidden_once(branch, files):
            mine = hidden - self._of_others(file)
            for delete, rows_named in self._deleted_by_others(file, files) if mine else ():
                if shared := rows_named & mine:
                    back.setdefault(delete.path, {}).setdefault(file.path, set()).update(shared)
                    deletes[delete.path] = delete
        for id, by_path in back.items():
            named = named_positions(self._storage, deletes[id])
            kept = {path: frozenset(at - by_path.get(path, set())) for path, at in named.items()}
            rows = sum(map(len, by_path.values()))
            yield Revealed(deletes[id], rows, {path: at for path, at in kept.items() if at}, frozenset())

    def note_shared(self, branch: str, files: SnapshotFiles) -> None:
        """Note rows that stay hidden for other requests, in files that another engine merged."""
        for file, mine in self._hidden_once(branch, files):
            for other in self._open & self._rows(file).keys():
                if shared := self._rows(file)[other] & mine:
                    self.staying.setdefault(other, {}).setdefault(file.path, set()).update(shared)

    def _hidden_once(self, branch: str, files: SnapshotFiles) -> Iterator[tuple[LiveFile, set[int]]]:
        """Rows that were hidden for the request and that no hide file lists any more."""
        known = hidden_positions(self._lake, self._table, [self._request.id], branch)
        hides = [delete for delete in files.deletes if is_hide(delete.path)]
        for file in (file for file in files.bare if known and place_digest(file.path) in known):
            mine = self._rows(file).get(self._request.id, set()) & known[place_digest(file.path)]
            for hide in (hide for hide in hides if mine and hide.only_for in (None, file.path)):
                mine -= named_positions(self._storage, hide, [file.path]).get(file.path, set())
            if mine:
                yield file, mine

    def _deleted_by_others(self, file: LiveFile, files: SnapshotFiles) -> Iterator[tuple[DeleteFile, set[int]]]:
        """Delete files of other engines, and the rows of a data file that they list.

        A merged file applies to that data file only; if it cannot be read, that is an error. Delete files for a whole
        partition are used if they can be read: otherwise `lost_rows.py` reports them.
        """
        others = [d for d in files.deletes if not (is_hide(d.path) or d.is_equality or d.is_vector)]
        for delete in (d for d in others if d.only_for == file.path and d.format == "parquet"):
            yield delete, named_positions(self._storage, delete, [file.path]).get(file.path, set())
        with suppress(BrokenTable):
            for delete in files.by_path[file.path].deletes:
                if delete in others and delete.only_for is None and delete.format == "parquet":
                    yield delete, named_positions(self._storage, delete, [file.path]).get(file.path, set())

    def _staying(self, file: LiveFile, named: set[int]) -> set[int]:
        if self._is_open:
            return named - (self._rows(file).get(self._request.id, set()) - self._of_others(file))
        return named & self._of_others(file)

    def _of_others(self, file: LiveFile) -> set[int]:
        return set[int]().union(*(at for request, at in self._rows(file).items() if request in self._open))

    def _rows(self, file: LiveFile) -> Mapping[str, set[int]]:
        """The positions of each open request's rows in a data file."""
        if file.path not in self._known:
            self._known[file.path] = self._owners.positions(self._table.metadata, self._storage, file)
        return self._known[file.path]


def _written(lake: Writer, table: Table, found: Sequence[Revealed]) -> Iterator[tuple[str, AddedFile | None]]:
    """The replacement of each delete file; none if none of its rows stay hidden."""
    folder, token = staging_folder(table, lake.stamp), secrets.token_hex(4)
    for number, one in enumerate(found):
        if not one.kept:
            yield one.file.path, None
            continue
        name = file_name(lake.stamp, token, number) if one.requests else f"{token}-{number}-deletes.parquet"
        path = f"{folder}/{name}"
        yield one.file.path, write(table.io, path, one.kept, one.file, one.requests)
        lake.progress(number + 1, len(found), "delete files written")
