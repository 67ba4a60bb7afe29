"""Makes catalogs that build the metadata log themselves, as REST catalogs and Spark do, drop entries of it.

They only know a limit, the table property `write.metadata.previous-versions-max`, of at least one entry: it is lowered
by one commit and restored by the next. The value to restore is kept in a property beside it, so that a second run can
finish the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.metadata_log import dead_entries
from lakewarden.engine.commit.changes import RefChange
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.commit.changes import ShortenedLog

LIMIT = "write.metadata.previous-versions-max"
TO_RESTORE = "lakewarden.previous-versions-max"


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
