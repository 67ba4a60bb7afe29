"""Drops entries of a table's metadata log whose files are about to be deleted.

Where the client writes the metadata, one commit does it. REST catalogs and Spark build the log themselves, limited only
by the table property `write.metadata.previous-versions-max`, which is at least one: it is lowered by one commit and
restored by the next. The value to restore is kept in another property, so that a second run can finish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.metadata_log import dead_entries, drop_entries
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.publish import Attempt, at_refs, by_client
from lakewarden.engine.commit.refs import RefChange
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.spark.session import Spark

LIMIT = "write.metadata.previous-versions-max"
TO_RESTORE = "lakewarden.previous-versions-max"


@dataclass(frozen=True)
class ShortenedLog(Change[int]):
    """Metadata files that will be deleted: no entry of the metadata log may reference them."""

    files: tuple[str, ...]

    def publish(self, desk: Desk) -> int:
        """Returns how many entries the catalog keeps nevertheless."""

        def attempt(table: Table) -> Attempt | None:
            dead = dead_entries(table, self.files)
            return Attempt(at_refs(self.uuid, {}), (drop_entries(dead),)) if dead else None

        if by_client(desk.tables.load(self.table)):
            desk.publisher.publish(self.table, self.uuid, attempt)
        else:
            _shorten(desk, lambda change: change.publish(desk), self, PUBLISH)
        return self._left(desk)

    def publish_through_spark(self, desk: Desk, spark: Spark) -> int:
        _shorten(desk, lambda change: change.publish_through_spark(desk, spark), self, SPARK_SQL)
        return self._left(desk)

    def _left(self, desk: Desk) -> int:
        return len(dead_entries(desk.tables.load(self.table), self.files))


def _shorten(desk: Desk, send: Callable[[RefChange], None], change: ShortenedLog, route: str) -> None:
    """Make a catalog that builds the log itself drop the entries of these files."""
    for lowered in _lowered_limit(desk.tables.load(change.table), change, route):
        send(lowered)
        reach("metadata_log.lowered")
    for restored in _restored_limit(desk.tables.load(change.table), change, route):
        send(restored)


def _lowered_limit(table: Table, change: ShortenedLog, route: str) -> Iterator[RefChange]:
    """The change that makes a catalog drop all entries up to the newest of these files; none if they are gone."""
    dead = dead_entries(table, change.files)
    if not dead:
        return
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    younger = len(log) - 1 - log.index(dead[-1])
    properties = table.metadata.properties
    before = properties.get(TO_RESTORE, properties.get(LIMIT, ""))
    changed = {TO_RESTORE: before, LIMIT: str(younger + 1)}  # plus one for the metadata file that this replaces
    yield RefChange(change.table, change.uuid, {}, properties=changed, route=route)


def _restored_limit(table: Table, change: ShortenedLog, route: str) -> Iterator[RefChange]:
    """The changes that restore the table's limit; on Spark each is a separate commit."""
    before = table.metadata.properties.get(TO_RESTORE)
    if before is None:
        return
    if before:
        yield RefChange(change.table, change.uuid, {}, properties={LIMIT: before}, route=route)
        yield RefChange(change.table, change.uuid, {}, drop_properties=(TO_RESTORE,), route=route)
    else:
        yield RefChange(change.table, change.uuid, {}, drop_properties=(LIMIT, TO_RESTORE), route=route)
