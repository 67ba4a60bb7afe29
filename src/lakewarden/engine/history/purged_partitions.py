"""The partitions of an archive that a purge changes: their stamps are marked in its commit.

The row count and checksums in such a stamp are those of the copy, with the rows that are erased now. Only a mark tells
these from rows that others removed.
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

    from lakewarden.engine.history.replacement import Replacement


def purged_partitions(
    table: Table, head: Iterable[ManifestFile], replacements: Mapping[str, Replacement], reader: Manifests
) -> dict[str, bool]:
    """The partitions of which main loses rows, and whether they still have files; none if it is not an archive."""
    keys = set(table.metadata.properties).union(*map(notes_of, table.metadata.snapshots))
    if not any(key.startswith(SEQUENCE) for key in keys):
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


def marks(table: Table, going: Collection[int], purged: Mapping[str, bool]) -> tuple[TableUpdate, ...]:
    """The update that marks the stamps in properties; also those that get there because these snapshots expire."""
    from pyiceberg.table.update import SetPropertiesUpdate

    stamps = {key: text for key, text in table.metadata.properties.items() if key.startswith(SEQUENCE)}
    stamps |= last_stamps(table, set(going))
    marked = {key: new for key, text in stamps.items() if (new := marked_purged(text, purged)) != text}
    return (SetPropertiesUpdate(updates=marked),) if marked else ()
