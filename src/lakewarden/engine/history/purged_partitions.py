"""The partitions of an archive that a purge changes: their stamps are marked.

The row count and checksums in such a stamp are those of the copy, with the rows that are erased now. Only a mark tells
these from rows that others removed. A purge marks them in its commit; through Spark, once main is moved and before the
versions with the rows expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import SEQUENCE, last_stamps, marked_purged
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.engine.files.manifests import Manifests, partition_key

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.files.live_files import Files, LiveFile
    from lakewarden.engine.history.replacement import Replacement
    from lakewarden.engine.rows.row_positions import KeyRows


def purged_partitions(
    table: Table, head: Iterable[ManifestFile], replacements: Mapping[str, Replacement], reader: Manifests
) -> dict[str, bool]:
    """The partitions of which main loses rows, and whether they still have files; none if it is not an archive."""
    if not _is_archive(table):
        return {}
    purged, left = set[str](), set[str]()
    for manifest in (each for each in head if not each.content):
        for entry in reader.entries(table.io, manifest):
            new = replacements.get(entry.data_file.file_path)
            name = next(map(str, partition_key(entry.data_file)), "")
            if new is not None:
                purged.add(name)
            if new is None or new.file is not None:
                left.add(name)
    return {name: name in left for name in purged}


def purged_by_spark(table: Table, rebuilt: Mapping[int, int], rows: KeyRows, files: Files) -> dict[str, bool]:
    """The same from versions that are still there: each one that Spark rebuilt for main, and the rebuilt one."""
    if not _is_archive(table):
        return {}
    found = dict[str, bool]()
    for old, new in rebuilt.items():
        partitions = {file.path: _partition(file) for file in files.of(table, table.snapshot_by_id(old)).bare}
        left = set(map(_partition, files.of(table, table.snapshot_by_id(new)).bare))
        for path in {path for path, _ in rows.places(table, old)}:
            found.setdefault(partitions[path], partitions[path] in left)
    return found


def marks(table: Table, going: Collection[int], purged: Mapping[str, bool]) -> tuple[TableUpdate, ...]:
    """The update that marks the stamps in properties; also those that get there because these snapshots expire."""
    from pyiceberg.table.update import SetPropertiesUpdate

    marked = marked_stamps(table, going, purged)
    return (SetPropertiesUpdate(updates=marked),) if marked else ()


def marked_stamps(table: Table, going: Collection[int], purged: Mapping[str, bool]) -> dict[str, str]:
    """The marked stamps, by property."""
    stamps = {key: text for key, text in table.metadata.properties.items() if key.startswith(SEQUENCE)}
    stamps |= last_stamps(table, set(going))
    return {key: new for key, text in stamps.items() if (new := marked_purged(text, purged)) != text}


def _is_archive(table: Table) -> bool:
    keys = set(table.metadata.properties).union(*map(notes_of, table.metadata.snapshots))
    return any(key.startswith(SEQUENCE) for key in keys)


def _partition(file: LiveFile) -> str:
    _, values = file.partition
    return next(map(str, values), "")
