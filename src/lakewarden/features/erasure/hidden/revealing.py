"""Showing the rows of one request again: the files of deletes that name them are replaced by files without them.

Whose row is whose follows from the key column. A row stays hidden that another open request asks for, too. A request
that is withdrawn already, as after a rollback to a version in which it was hidden, has no values any more: then what no
open request asks for is shown again, and that was hidden for withdrawn requests only.

Other engines, as Spark, merge the deletes of a data file when they delete from it, and drop the hide file. Rows that
were hidden were not visible to them, so they cannot have deleted those: what the hide file named comes back from the
merged file as well. Which these are is remembered in the evidence of each hide (`hidden_positions.py`).
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
    """A file of deletes that names rows of a request, and the rows that its successor still names, by data file."""

    file: DeleteFile = field(repr=False)
    rows: int
    """How many rows come back."""
    kept: Mapping[str, frozenset[int]] = field(repr=False)
    requests: frozenset[str]
    """Those that the file serves then; none where another engine wrote it."""


def reveal(lake: Writer, name: str, uuid: str, request: ErasureRequest) -> tuple[int, int]:
    """Show the rows of a request again on all branches, in one commit; how many branches and files that concerns."""
    table = lake.tables.load(name)
    found = revealed(lake, name, table, request)
    if not found:
        return 0, 0
    written = dict(_written(lake, table, found))
    try:
        branches = lake.commits.publish(Unmask(name, uuid, written))
    except CatalogUnavailable:
        raise  # it may have landed: a second run looks
    except LakewardenError:
        for file in written.values():
            if file is not None:
                table.io.delete(file.file.file_path)
        raise
    return branches, len(found)


def revealed(lake: Reader, name: str, table: Table, request: ErasureRequest) -> list[Revealed]:
    """The files of deletes on branches that are to be replaced, so that exactly the rows of a request come back."""
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
    """Remember for other requests which rows in merged files stay hidden for them, before this one ends."""
    look = _Look(lake, name, table, request)
    for ref in sorted(n for n, ref in table.metadata.refs.items() if str(ref.snapshot_ref_type) == "branch"):
        look.note_shared(ref, lake.files.of(table, table.snapshot_by_name(ref)))
    for other, files in look.staying.items():
        carry(lake, name, str(table.metadata.table_uuid), f"{step}-{other}", [other], files)


class _Look:
    """Looks up whose rows files of deletes name."""

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
        """What stays of a hide file; nothing for data files that no branch has any more."""
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
        """What stays of files that another engine wrote, with rows of a hide file that it took over."""
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
        """Take note of rows that stay hidden for other requests, in files that another engine merged."""
        for file, mine in self._hidden_once(branch, files):
            for other in self._open & self._rows(file).keys():
                if shared := self._rows(file)[other] & mine:
                    self.staying.setdefault(other, {}).setdefault(file.path, set()).update(shared)

    def _hidden_once(self, branch: str, files: SnapshotFiles) -> Iterator[tuple[LiveFile, set[int]]]:
        """Rows that were hidden for the request, but for those that a hide file still names."""
        known = hidden_positions(self._lake, self._table, [self._request.id], branch)
        hides = [delete for delete in files.deletes if is_hide(delete.path)]
        for file in (file for file in files.bare if known and place_digest(file.path) in known):
            mine = self._rows(file).get(self._request.id, set()) & known[place_digest(file.path)]
            for hide in (hide for hide in hides if mine and hide.only_for in (None, file.path)):
                mine -= named_positions(self._storage, hide, [file.path]).get(file.path, set())
            if mine:
                yield file, mine

    def _deleted_by_others(self, file: LiveFile, files: SnapshotFiles) -> Iterator[tuple[DeleteFile, set[int]]]:
        """Deletes of other engines, and which rows of a data file they name.

        A merged file is for that data file alone, and one that cannot be read stops what is asked. Deletes for the
        whole partition are looked at as far as they can be read: `lost_rows.py` reports where they cannot.
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
        """Where a data file has rows of which open request."""
        if file.path not in self._known:
            self._known[file.path] = self._owners.positions(self._table.metadata, self._storage, file)
        return self._known[file.path]


def _written(lake: Writer, table: Table, found: Sequence[Revealed]) -> Iterator[tuple[str, AddedFile | None]]:
    """For each file of deletes the one that takes its place; none where no row of it stays hidden."""
    folder, token = staging_folder(table, lake.stamp), secrets.token_hex(4)
    for number, one in enumerate(found):
        if not one.kept:
            yield one.file.path, None
            continue
        name = file_name(lake.stamp, token, number) if one.requests else f"{token}-{number}-deletes.parquet"
        path = f"{folder}/{name}"
        yield one.file.path, write(table.io, path, one.kept, one.file, one.requests)
        lake.progress(number + 1, len(found), "delete files written")
