"""Files that a killed run of an action wrote and never published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.file_naming import is_owned
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.commit.new_snapshot import metadata_folder
from lakewarden.engine.files.unreachable import still_unreachable

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.storage.storage import Storage
    from lakewarden.lifecycle.basics import Stamp


def staging_folder(table: Table, stamp: Stamp) -> str:
    """Where an action writes data files; published files stay there."""
    own = table.metadata.properties.get("write.data.path")
    return f"{(own or table.metadata.location.rstrip('/') + '/data').rstrip('/')}/{stamp.file_prefix}"


def sweep(table: Table, stamp: Stamp, storage: Storage) -> int:
    """Delete what earlier runs of an action left; published files are reachable, and stay."""
    written = [file.path for file in storage.walk(staging_folder(table, stamp))]
    written += [file.path for file in storage.walk(metadata_folder(table)) if is_owned(file.path, stamp)]
    logged = {same_place(entry.metadata_file) for entry in table.metadata.metadata_log}
    left = [path for path in written if same_place(path) not in logged]
    if not left:
        return 0
    return storage.delete_all(still_unreachable(table, left)).files
