"""Where a table has rows with some keys: in which versions, and at which positions of which files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lakewarden.engine.rows.search import search
from lakewarden.engine.rows.shares import Owners

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import Files
    from lakewarden.engine.rows.search import Searched
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey

_READERS = 8


class KeyRows:
    """Looks up rows by key. Positions in a file are looked up once, however many versions share it."""

    def __init__(self, keys: Sequence[HiddenKey], files: Files, storage: StoredFiles) -> None:
        self._keys, self._files, self._storage = keys, files, storage
        self._owners = Owners({"": keys})
        self._known: dict[str, list[int]] = {}

    def search(self, table: Table, snapshots: Collection[int]) -> Searched:
        """The files of some versions that hold such rows, whether or not deletes mask them."""
        return search(table, self._keys, self._files, self._storage, only=snapshots)

    def is_revealed_by(self, table: Table, snapshot: int) -> bool:
        """Whether files of a version hold such a row, or dangling deletes name one that did."""
        if self.search(table, {snapshot}).matches:
            return True
        files = self._files.of(table, table.snapshot_by_id(snapshot))
        dangling = files.dangling() if files.deletes else []
        return any(files.masks.get(delete.identity, {}).keys() & self._known.keys() for delete in dangling)

    def places(self, table: Table, *snapshots: int) -> list[tuple[str, int]]:
        """Each such row of some versions, by data file and position."""
        matches = self.search(table, snapshots).matches.values()
        paths = [match.path for match in matches if match.content == "data"]
        unknown = [path for path in paths if path not in self._known]
        if unknown:
            versions = [one for one in table.metadata.snapshots if one.snapshot_id in snapshots]
            live, _ = self._files.across(table, versions)

            def look(path: str) -> list[int]:
                return sorted(self._owners.positions(table.metadata, self._storage, live[path]).get("", ()))

            with ThreadPoolExecutor(_READERS, thread_name_prefix="places") as readers:
                self._known |= dict(zip(unknown, readers.map(look, unknown), strict=True))
        return [(path, position) for path in paths for position in self._known[path]]
