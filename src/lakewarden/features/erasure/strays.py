"""Erasing copies that no version of a table leads to: left behind, in quarantine, or kept by a bucket's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.quarantine import OWN_FOLDER, batches, forget
from lakewarden.engine.reachable import own_places
from lakewarden.engine.strays import strays
from lakewarden.errors import StorageUnavailable
from lakewarden.features.erasure.proving import age_of_strays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from lakewarden.engine.reference import TableName
    from lakewarden.engine.storage import Storage
    from lakewarden.lifecycle.ground import Writer
    from lakewarden.lifecycle.tombstones import HiddenKey


def erase_strays(lake: Writer, name: TableName, keys: Sequence[HiddenKey]) -> int:
    """Erase what nothing leads to and that tells of the keys, unless somebody may be about to commit it; its bytes."""
    table, storage = lake.tables.load(name), lake.storage(name.lake)
    found = list(strays(table, keys, storage, lake.clock() - age_of_strays(lake)))
    files = [one.path for one in found if one.bytes or one.version]
    kept_apart = {path for path in files if f"/{OWN_FOLDER}/" in path}
    records = {path for path in kept_apart if path.endswith("/batch.json")}
    removed = storage.erase_all([path for path in files if path not in records], own_places(table))
    if removed.failed:
        raise StorageUnavailable(
            f"{name}: {len(removed.failed)} copies of erased rows could not be removed, as {removed.failed[0][0]}: "
            f"{removed.failed[0][1]}",
            "No version leads to them. Resume the operation when that is mended.",
        )
    if kept_apart:
        _tell_quarantine(table, storage, kept_apart)
    for folder in sorted({one.path for one in found if not one.bytes and not one.version}, key=len, reverse=True):
        storage.remove_empty_folder(folder)
    return removed.bytes


def _tell_quarantine(table: Table, storage: Storage, erased: set[str]) -> None:
    """Batches are told what they have no more, so that the rest can still be brought back."""
    for batch in batches(storage, table.metadata.location):
        gone = {file.name for file in batch.files if batch.place(file) in erased}
        if gone or batch.record in erased:
            forget(storage, batch, gone)
