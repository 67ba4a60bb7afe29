"""Drops entries of a table's metadata log whose files are about to be deleted.

Engines follow the log: `rewrite_table_path` fails on an entry whose file is gone. PyIceberg has no update for it. Where
the client writes the metadata, a custom update drops entries in the same commit, including the entry for the metadata
file which that commit replaces. Where the catalog builds the log, see `engine/commit/shortened_log.py`.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lakewarden.engine.base.locations import same_place

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


@dataclass(frozen=True)
class _DropEntries:
    """A custom update, applied where the client writes the metadata."""

    gone: frozenset[str] | None


def drop_entries(files: Collection[str]) -> TableUpdate:
    """Drop the entries of these files; the metadata file that the commit replaces gets its entry as usual."""
    return _update(_DropEntries(frozenset(map(same_place, files))))


def drop_all_entries() -> TableUpdate:
    """Drop every entry, including the one for the metadata file that the commit replaces. Must be the last update."""
    return _update(_DropEntries(None))


def dead_entries(table: Table, files: Collection[str]) -> list[str]:
    """The log entries of these files."""
    gone = {same_place(path) for path in files}
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    return [path for path in log if same_place(path) in gone]


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
