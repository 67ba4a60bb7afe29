"""Rewrites equality delete files without the rows of erased keys; they keep deleting other rows.

A row of such a file deletes all rows that are equal to it. If the key is among the compared columns, the rows it
deletes are erased anyway, so the row is dropped. If the key is only an extra column, the column is dropped and the row
stays: otherwise other people's rows would reappear.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import quietly_read, translating
from lakewarden.engine.files.written_files import delete_file, read_footer
from lakewarden.engine.rewrite.single_files import RewrittenFile
from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import DeleteFile
    from lakewarden.engine.storage.storage import Storage
    from lakewarden.records.erasure import HiddenKey


def without_keys(
    table: Table, delete: DeleteFile, keys: Sequence[HiddenKey], storage: Storage, folder: str
) -> RewrittenFile:
    """Rewrite an equality delete file without what it reveals of the keys."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lakewarden.engine.kernel.schema import nan_counts

    if delete.format != "parquet":
        raise BrokenTable(
            f"the delete file {delete.path} is {delete.format}, from which values cannot be erased",
            "Compact the table with Spark first, so that its deletes are applied.",
        )
    with translating(delete.path):
        content = storage.read(delete.path)
    compared = set(delete.equality_ids)
    with quietly_read(delete.path, "Restore it, or roll back to a version without it."):
        rows = pq.ParquetFile(pa.BufferReader(content)).read()
        kept = _without_rows(rows, [KeyValues(key) for key in keys if key.field_id in compared])
        kept = _without_columns(kept, compared)
    before = hashlib.sha256(content).hexdigest()
    if not kept.num_rows:
        return RewrittenFile(delete.path, None, rows.num_rows, rows.num_rows, (), before, None)
    sink = pa.BufferOutputStream()
    pq.write_table(kept, sink, compression="zstd", use_dictionary=False)
    written, path = sink.getvalue().to_pybytes(), f"{folder}/deletes-{secrets.token_hex(8)}.parquet"
    storage.make_folder(folder)
    storage.write(path, written)
    file = delete_file(table, read_footer(storage, path), nan_counts(kept), delete)
    dropped = rows.num_rows - kept.num_rows
    return RewrittenFile(delete.path, file, rows.num_rows, dropped, (), before, hashlib.sha256(written).hexdigest())


def _without_rows(rows: Any, keys: Sequence[KeyValues]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    for key in keys:
        column = _column(rows, key)
        if column is not None:
            held = pa.chunked_array([key.matches(chunk) for chunk in column.chunks], pa.bool_())
            rows = rows.filter(pc.invert(held))
    return rows


def _column(rows: Any, key: KeyValues) -> Any:
    """A key's column by field id, also within structs; None if the file lacks it."""
    from lakewarden.engine.kernel.messages import RewriteFault
    from lakewarden.engine.kernel.schema import column_at, find

    place = find(rows.schema, key.field_id)
    if place is None:
        return None
    column = column_at(rows, place)
    if not key.can_be(column.type):
        raise RewriteFault("schema", f"a column is {column.type}, which cannot be read as {key.kind}")
    return column


def _without_columns(rows: Any, compared: set[int]) -> Any:
    """Only the compared columns: nothing needs the others."""
    from lakewarden.engine.kernel.schema import children, field_id

    def serves(field: Any) -> bool:
        return field_id(field) in compared or any(serves(child) for child in children(field.type))

    return rows.select([field.name for field in rows.schema if serves(field)])
