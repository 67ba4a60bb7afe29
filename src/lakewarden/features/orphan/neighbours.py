"""Refuses tables whose locations overlap: it would be unclear which table owns which files (invariant 2)."""

from __future__ import annotations

import re
import threading
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.base.parallel import traverse
from lakewarden.engine.files.reachable import own_places
from lakewarden.errors import BrokenTable, DeletionForbidden, LakewardenError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.ground import Reader

_METADATA = (".metadata.json", ".metadata.json.gz")
_UUID = re.compile(rb'"(?:table|view)-uuid"\s*:\s*"([^"]*)"')
_LOCATION = re.compile(rb'"location"\s*:\s*"([^"]*)"')
_BEGINNING = 1 << 16
_READERS = 16


class Neighbours:
    """The locations of all tables of each lake, looked up once when first needed."""

    def __init__(self, lake: Reader) -> None:
        self._lake = lake
        self._known: dict[str, _Places] = {}
        self._lock = threading.Lock()

    def refuse_shared(self, name: TableName, table: Table) -> None:
        """Refuse a table whose location equals, contains or lies within that of another table of its lake."""
        with self._lock:
            if name.lake not in self._known:
                read = self._lake.tables.read_all(self._lake.tables.names(name.lake), self._places)
                self._known[name.lake] = _Places(place for places in read for place in places)
        shared = next((found for mine in own_places(table) for found in self._known[name.lake].near(mine, name)), None)
        if shared is not None:
            raise DeletionForbidden(
                f"{name} shares its location with {shared[0]}, whose files are at {shared[1]}",
                "It is unclear which table owns which files. Give each table its own location.",
            )

    def _places(self, name: TableName) -> list[tuple[TableName, str]]:
        """None if the table is unreadable: if its metadata lies below another table, `refuse_foreign` finds it."""
        try:
            return [(name, place) for place in own_places(self._lake.tables.load(name))]
        except LakewardenError:
            return []


class _Places:
    """Tables by location, for finding those at, below or above a location."""

    def __init__(self, places: Iterable[tuple[TableName, str]]) -> None:
        self._at: dict[str, list[tuple[TableName, str]]] = {}
        for name, place in places:
            self._at.setdefault(same_place(place), []).append((name, place))
        self._in_order = sorted(self._at)

    def near(self, place: str, besides: TableName) -> Iterator[tuple[TableName, str]]:
        here = same_place(place)
        above = [here[:end] for end in range(len(here)) if here[end] == "/"]
        below = self._in_order[bisect_left(self._in_order, f"{here}/") : bisect_left(self._in_order, f"{here}0")]
        for spelled in (here, *above, *below):  # 0 is the character after /
            yield from (found for found in self._at.get(spelled, ()) if found[0] != besides)


def is_metadata(path: str) -> bool:
    return path.endswith(_METADATA)


def refuse_foreign(name: TableName, table: Table, storage: StoredFiles, paths: Sequence[str]) -> None:
    """Refuse a table if another table's metadata lies under its location. Its own unreferenced metadata may."""
    uuid, location = str(table.metadata.table_uuid), same_place(table.metadata.location.rstrip("/"))

    def look(path: str) -> Iterator[tuple[str, str]]:
        found = _whose(storage, path)
        if found not in (None, uuid, location):
            yield path, str(found)

    with closing(traverse(paths, look, min(_READERS, len(paths) or 1), "foreign")) as found:
        foreign = next(found, None)
    if foreign is not None:
        raise DeletionForbidden(
            f"{name}: the metadata of another table lies under its location: {foreign[0]} ({foreign[1]})",
            "It is unclear which table owns which files. Move that table elsewhere, or remove its files by hand.",
        )


def _whose(storage: StoredFiles, path: str) -> str | None:
    """The uuid of the table of a metadata file, or its location if the file is too old to have a uuid."""
    try:
        for most in (_BEGINNING, None):
            content = storage.read(path, most)
            text = zlib.decompressobj(31).decompress(content) if content.startswith(b"\x1f\x8b") else content
            if found := _UUID.search(text):
                return found[1].decode(errors="replace").lower()
        location = _LOCATION.search(text)
    except (BrokenTable, zlib.error) as error:
        return None if isinstance(error, BrokenTable) else "not readable"  # deleted since it was listed
    if not content:
        return None  # an interrupted writer left it empty
    return same_place(location[1].decode(errors="replace").rstrip("/")) if location else "not readable"
