"""Data files that must not be rewritten: they have hidden rows, which come back if the request is withdrawn.

Every rewrite checks this first. Closed requests hold no files, because their rows are erased. A withdrawn request with
hidden rows is about to show them again, except in format v3, where they were added again before it was withdrawn.

A rewrite also drops the values of columns that the table no longer has. Files in which only such a column shows that a
row belongs to an open request are held too: after a rewrite nothing would hide that row, and nothing could erase it.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.rows.position_deletes import is_hide, served_requests
from lakewarden.engine.rows.search import search
from lakewarden.errors import NotFound
from lakewarden.features.erasure.hidden.hidden_positions import hidden_positions
from lakewarden.records.erasure import ErasureState

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import SnapshotFiles
    from lakewarden.lifecycle.ground import Reader

_READERS = 8


def held_files(lake: Reader, table: Table, files: SnapshotFiles) -> frozenset[str]:
    """The data files of a version with rows that are hidden for a request that is not closed."""
    over = {ErasureState.CLOSED} | ({ErasureState.WITHDRAWN} if table.metadata.format_version > 2 else set())
    return _by_hide_files(lake, files, over) | _by_merged_deletes(lake, table, files) | with_former_keys(lake, table)


def with_former_keys(lake: Reader, table: Table, besides: Collection[str] = ()) -> frozenset[str]:
    """The files of main with rows of open requests by columns that the table no longer has."""
    uuid, schema, head = str(table.metadata.table_uuid), table.schema(), table.current_snapshot()
    asked = [one.id for one in lake.state.erasure.list([ErasureState.OPEN], uuid) if one.id not in besides]
    hidden = lake.state.erasure.hidden(uuid, asked) if asked and head is not None else ()
    keys = [key for key in hidden if schema.find_column_name(key.field_id) is None]
    if not keys or head is None:
        return frozenset()
    found = search(table, keys, lake.files, lake.storage(table.catalog.name), only={head.snapshot_id})
    return frozenset(match.path for match in found.matches.values() if match.content == "data")


def _by_merged_deletes(lake: Reader, table: Table, files: SnapshotFiles) -> frozenset[str]:
    """Files whose hide file another engine merged with its own deletes: then only evidence knows the hidden rows."""
    if not files.deletes:
        return frozenset()
    asked = lake.state.erasure.list([ErasureState.OPEN], str(table.metadata.table_uuid))
    hidden = hidden_positions(lake, table, [request.id for request in asked])
    deleted = (file for file in files.data if any(not is_hide(delete.path) for delete in file.deletes))
    return frozenset(file.path for file in deleted if place_digest(file.path) in hidden) if hidden else frozenset()


def _by_hide_files(lake: Reader, files: SnapshotFiles, over: Collection[ErasureState]) -> frozenset[str]:
    hide_files = list(dict.fromkeys(delete.path for delete in files.deletes if is_hide(delete.path)))
    with ThreadPoolExecutor(_READERS, thread_name_prefix="held") as readers:
        found = readers.map(lambda path: served_requests(path, files.opened), hide_files)
        served = dict(zip(hide_files, found, strict=True))
    holding = _holding(lake, {request for some in served.values() for request in some}, over)
    hiding = {path for path, requests in served.items() if requests & holding}
    if not hiding:
        return frozenset()
    return frozenset(file.path for file in files.data if any(delete.path in hiding for delete in file.deletes))


def _holding(lake: Reader, requests: set[str], over: Collection[ErasureState]) -> set[str]:
    """The requests that are not over, or that are in another control database."""
    try:
        known = lake.state.erasure.many(sorted(requests))
        return {request.id for request in known if request.state not in over}
    except NotFound:
        return {request for request in requests if _is_unknown_or_holds(lake, request, over)}


def _is_unknown_or_holds(lake: Reader, request: str, over: Collection[ErasureState]) -> bool:
    try:
        return lake.state.erasure.get(request).state not in over
    except NotFound:
        return True
