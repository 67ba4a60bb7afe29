"""How many rows a version shows, from metadata: the rows of its files less those that deletes mask, each once.

Rows that erasure requests hide must be counted by reading, but only in files that may hold one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.files.manifests import stream_entries
from lakewarden.engine.kernel.deletes import read_masks
from lakewarden.engine.kernel.messages import Access, Input
from lakewarden.engine.kernel.storage import TaskStorage
from lakewarden.engine.kernel.vectors import vector_positions
from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.engine.rows.pruning import Sieve

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import LiveFile, SnapshotFiles
    from lakewarden.records.erasure import HiddenKey

_FILES_AT_ONCE = 64


def visible_rows(files: Iterable[LiveFile], access: Access) -> dict[str, int]:
    """By path, the rows of files that no position delete masks. Only deletes that may name a row twice are read."""
    found: dict[str, int] = {}
    unclear: list[LiveFile] = []
    for file in files:
        found[file.path] = file.rows
        if len(file.deletes) == 1 and file.deletes[0].is_vector:
            found[file.path] -= file.deletes[0].rows
        elif file.deletes:
            unclear.append(file)
    storage = TaskStorage(access)
    for start in range(0, len(unclear), _FILES_AT_ONCE):
        some = unclear[start : start + _FILES_AT_ONCE]
        inputs = [Input(file.path, file.rows, tuple(delete.path for delete in file.deletes)) for file in some]
        masks = read_masks(storage, inputs, vector_positions)
        for file in some:
            masked = masks.masked(file.path, 0, file.rows) if file.rows else None
            found[file.path] -= 0 if masked is None else masked.true_count
    return found


def may_hold(table: Table, files: SnapshotFiles, hidden: Sequence[HiddenKey]) -> set[str]:
    """The data files whose metadata does not rule out that they hold a hidden row."""
    from pyiceberg.manifest import ManifestContent

    keys = [KeyValues(key) for key in hidden if key.values]
    if not keys:
        return set()
    sieve = Sieve(table.metadata, keys)
    manifests = [manifest for manifest in files.manifests if manifest.content == ManifestContent.DATA]
    entries = (entry for manifest in manifests for entry in stream_entries(table.io, manifest))
    return {entry.data_file.file_path for entry in entries if sieve.may_hold(entry.data_file)}
