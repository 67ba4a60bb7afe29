"""Deletes unreferenced copies of erased rows: orphans, files in quarantine, and earlier object versions in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.commit.publish import check_identity
from lakewarden.engine.files.reachable import own_places, reachable_set
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.history.unreferenced_copies import unreferenced_copies
from lakewarden.engine.proof.objects import places
from lakewarden.engine.storage.quarantine import OWN_FOLDER, batches, forget
from lakewarden.errors import StorageUnavailable
from lakewarden.features.erasure.purging.intent import OldFile
from lakewarden.features.orphan.age import age_of_orphans
from lakewarden.features.orphan.judgement import kind_of, refuse_forbidden
from lakewarden.features.orphan.neighbours import Neighbours, is_metadata, refuse_foreign

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.storage.storage import Storage
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import HiddenKey


def refuse_strangers(lake: Reader, name: TableName, table: Table, neighbours: Neighbours) -> None:
    """Refuse if files of another table may lie under this table's locations."""
    neighbours.refuse_shared(name, table)
    storage, needed = lake.storage(name.lake), reachable_set(table)
    found = (file.path for place in places(table) for file in storage.walk(place, without=[OWN_FOLDER]))
    refuse_foreign(name, table, storage, [path for path in found if is_metadata(path) and path not in needed])


def erase_strays(
    lake: Writer, name: TableName, uuid: str, keys: Sequence[HiddenKey], earlier: Iterable[str] = ()
) -> list[OldFile]:
    """Delete unreferenced files that mention the keys, unless a writer may be about to commit them.

    `earlier` are files of an earlier state of the table: metadata based on one of them can no longer be committed.
    """
    table, storage = lake.tables.load(name), lake.storage(name.lake)
    refuse_strangers(lake, name, table, Neighbours(lake))
    found = list(unreferenced_copies(table, keys, storage, lake.clock() - age_of_orphans(lake), earlier))
    files = {one.path: OldFile(one.path, kind_of(one.path), one.bytes) for one in found if one.bytes or one.version}
    kept_apart = {path for path in files if f"/{OWN_FOLDER}/" in path}
    records = {path for path in kept_apart if path.endswith("/batch.json")}
    table = lake.tables.load(name)  # again: other writers may have committed in the meantime
    check_identity(table, str(name), uuid)
    refuse_forbidden(name, table)
    going = still_unreachable(table, [path for path in files if path not in records])
    removed = storage.erase_all(going, own_places(table))
    if removed.failed:
        raise StorageUnavailable(
            f"{name}: {len(removed.failed)} copies of erased rows could not be deleted, such as "
            f"{removed.failed[0][0]}: {removed.failed[0][1]}",
            "No version references them. Fix the cause, then resume the operation.",
        )
    if kept_apart:
        _update_batches(table, storage, kept_apart & {*going, *records})
    for folder in sorted({one.path for one in found if not one.bytes and not one.version}, key=len, reverse=True):
        storage.remove_empty_folder(folder)
    return [files[path] for path in going]


def _update_batches(table: Table, storage: Storage, erased: set[str]) -> None:
    """Remove deleted files from the records of quarantine batches, so that the rest can still be restored."""
    for batch in batches(storage, table.metadata.location):
        gone = {file.name for file in batch.files if batch.place(file) in erased}
        if gone or batch.record in erased:
            forget(storage, batch, gone)
