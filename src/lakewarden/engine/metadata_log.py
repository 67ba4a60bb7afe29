"""Drops entries of a table's metadata log whose files are about to be deleted.

Engines follow the log: `rewrite_table_path` fails on an entry whose file is gone. PyIceberg has no update for it. Where
the client writes the metadata, an update of our own drops entries in the same commit, also the one for the metadata
file that the commit itself replaces. REST catalogs and Spark build the log themselves and only know a limit, the table
property `write.metadata.previous-versions-max`, of at least one entry: there the limit is lowered by one commit and
restored by the next. The value to restore is kept in a property beside it, so that a second run can finish the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lakewarden.engine.changes import RefChange
from lakewarden.engine.locations import same_place
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.changes import ShortenedLog

LIMIT = "write.metadata.previous-versions-max"
TO_RESTORE = "lakewarden.previous-versions-max"


@dataclass(frozen=True)
class _DropEntries:
    """An update of our own, applied where the client writes the metadata."""

    gone: frozenset[str] | None


def drop_entries(files: Collection[str]) -> TableUpdate:
    """Drop the entries of these files; the metadata file that the commit replaces gets its entry as usual."""
    return _update(_DropEntries(frozenset(map(same_place, files))))


def drop_all_entries() -> TableUpdate:
    """Drop every entry, also that of the metadata file which the commit replaces. Must be the commit's last update."""
    return _update(_DropEntries(None))


def dead_entries(table: Table, files: Collection[str]) -> list[str]:
    """The entries of the log that are among these files."""
    gone = {same_place(path) for path in files}
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    return [path for path in log if same_place(path) in gone]


def shorten(load: Callable[[], Table], send: Callable[[RefChange], None], change: ShortenedLog, route: str) -> None:
    """Make a catalog that builds the log itself drop the entries of these files."""
    for lowered in _lowered_limit(load(), change, route):
        send(lowered)
        reach("metadata_log.lowered")
    for restored in _restored_limit(load(), change, route):
        send(restored)


def _lowered_limit(table: Table, change: ShortenedLog, route: str) -> Iterator[RefChange]:
    """What makes a catalog drop all entries up to the newest of these files; nothing where it has dropped them."""
    dead = dead_entries(table, change.files)
    if not dead:
        return
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    younger = len(log) - 1 - log.index(dead[-1])
    properties = table.metadata.properties
    before = properties.get(TO_RESTORE, properties.get(LIMIT, ""))
    changed = {TO_RESTORE: before, LIMIT: str(younger + 1)}  # one more, for the metadata file that this replaces
    yield RefChange(change.table, change.uuid, {}, properties=changed, route=route)


def _restored_limit(table: Table, change: ShortenedLog, route: str) -> Iterator[RefChange]:
    """What gives a table back the limit that it had; on Spark each of these may be a commit."""
    before = table.metadata.properties.get(TO_RESTORE)
    if before is None:
        return
    if before:
        yield RefChange(change.table, change.uuid, {}, properties={LIMIT: before}, route=route)
        yield RefChange(change.table, change.uuid, {}, drop_properties=(TO_RESTORE,), route=route)
    else:
        yield RefChange(change.table, change.uuid, {}, drop_properties=(LIMIT, TO_RESTORE), route=route)


def _update(update: _DropEntries) -> TableUpdate:
    from pyiceberg.table.update import _apply_table_update

    if _DropEntries not in _apply_table_update.registry:
        _apply_table_update.register(_DropEntries, _dropped)
    return cast("TableUpdate", update)


def _dropped(update: _DropEntries, base: TableMetadata, context: Any) -> TableMetadata:
    now = max(int(time.time() * 1000), base.last_updated_ms)
    if update.gone is None:
        context._updates.clear()  # PyIceberg adds an entry for the replaced file to every commit that has updates
        return base.model_copy(update={"metadata_log": [], "last_updated_ms": now})
    context.add_update(update)
    kept = [entry for entry in base.metadata_log if same_place(entry.metadata_file) not in update.gone]
    return base.model_copy(update={"metadata_log": kept})
