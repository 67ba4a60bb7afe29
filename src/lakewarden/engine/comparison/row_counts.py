"""How many rows a version shows, from metadata: the rows of its files less those that deletes mask, each once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakewarden.engine.kernel.deletes import read_masks
from lakewarden.engine.kernel.messages import Access, Input
from lakewarden.engine.kernel.storage import TaskStorage
from lakewarden.engine.kernel.vectors import vector_positions

if TYPE_CHECKING:
    from lakewarden.engine.files.live_files import LiveFile

_FILES_AT_ONCE = 64


def visible_rows(files: Iterable[LiveFile], access: Access) -> int:
    """The rows of files that no position delete masks. Only deletes that may name a row twice are read."""
    total = 0
    unclear: list[LiveFile] = []
    for file in files:
        total += file.rows
        if len(file.deletes) == 1 and file.deletes[0].is_vector:
            total -= file.deletes[0].rows
        elif file.deletes:
            unclear.append(file)
    storage = TaskStorage(access)
    for start in range(0, len(unclear), _FILES_AT_ONCE):
        some = unclear[start : start + _FILES_AT_ONCE]
        inputs = [Input(file.path, file.rows, tuple(delete.path for delete in file.deletes)) for file in some]
        masks = read_masks(storage, inputs, vector_positions)
        found = (masks.masked(file.path, 0, file.rows) if file.rows else None for file in some)
        total -= sum(masked.true_count for masked in found if masked is not None)
    return total
