"""The values of key columns in one Parquet file, as canonical texts.

Only those columns are read, in batches, and each distinct value is returned with its number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.engine.rows.new_since import Arrival
    from lakewarden.engine.storage.storage import StoredFiles

Counts = Mapping[str, int]
_ROWS_AT_ONCE = 1 << 16
_BUFFER = 1 << 20


def column_names(metadata: TableMetadata, fields: Iterable[int]) -> dict[int, str]:
    """The current or last names of columns, for files without field ids."""
    found: dict[int, str] = {}
    for schema in [*metadata.schemas, metadata.schema()]:
        found |= {id: name for id in fields if (name := schema.find_column_name(id))}
    return found


def column_texts(
    storage: StoredFiles, file: Arrival, kinds: Mapping[int, str], names: Mapping[int, str]
) -> Iterator[tuple[int, Counts]]:
    """For each column of a file, by field id: distinct values of a batch, with their number of rows.

    `kinds` are the columns' types. `names` are their names in files without ids, written by other tools.
    """
    import pyarrow as pa

    from lakewarden.engine.kernel.messages import RewriteFault

    try:
        with storage.open(file.path) as source:
            yield from _read(source, file, kinds, names)
    except RewriteFault as fault:
        raise BrokenTable(f"{fault.message}: {file.path}") from None
    except (pa.ArrowException, OSError) as error:  # its message may quote a value
        if isinstance(error, FileNotFoundError):
            raise
        raise BrokenTable(
            f"the file {file.path} cannot be read: it is damaged or unavailable",
            "Restore it, or expire the versions that have it.",
        ) from None


def _read(
    source: Any, file: Arrival, kinds: Mapping[int, str], names: Mapping[int, str]
) -> Iterator[tuple[int, Counts]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER)
    places = {id: place for id in kinds if (place := _place(opened.schema_arrow, id, names.get(id, "")))}
    for id in file.partition.keys() & kinds.keys() - places.keys():
        yield id, {_text(file.partition[id], kinds[id]): file.rows}
    if not places:
        return
    paths = {id: _path(opened.schema_arrow, place) for id, place in places.items()}
    columns = [".".join(path) for path in paths.values()]
    for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=columns, use_threads=False):
        for id, (top, *within) in paths.items():
            column = batch.column(top)
            for name in within:
                column = pc.struct_field(column, name)
            yield id, _counted(column, kinds[id])


def _place(schema: Any, id: int, name: str) -> list[int] | None:
    """The path to a column in a file: by id, or by name if the file has no ids."""
    from lakewarden.engine.kernel.schema import field_id, find

    if any(field_id(field) is not None for field in schema):
        return find(schema, id)
    place: list[int] = []
    fields = schema
    for part in name.split("."):
        index = fields.get_field_index(part) if hasattr(fields, "get_field_index") else -1
        if index < 0:
            return None
        place.append(index)
        fields = fields.field(index).type
    return place


def _path(schema: Any, place: list[int]) -> list[str]:
    names, fields = [], schema
    for index in place:
        names.append(fields.field(index).name)
        fields = fields.field(index).type
    return names


def _counted(column: Any, kind: str) -> Counts:
    """The number of rows for each value; nulls belong to nobody."""
    import pyarrow.compute as pc

    column = getattr(column, "storage", column)  # the storage of a UUID is its bytes
    counts = pc.value_counts(pc.drop_null(column))
    return dict(zip(_texts(counts.field("values"), kind), counts.field("counts").to_pylist(), strict=True))


def _texts(values: Any, kind: str) -> list[str]:
    """Values as `keys.canonical` spells them; the file's type may be wider or narrower than the column's."""
    import pyarrow as pa

    match kind.split("(")[0]:
        case "int" | "long" | "date":
            return list(values.cast(pa.string()).to_pylist())
        case "string" if pa.types.is_string(values.type):
            return list(values.to_pylist())
        case _:
            return [_text(value, kind) for value in values.to_pylist()]


def _text(value: Any, kind: str) -> str:
    match kind.split("(")[0]:
        case "uuid":
            return str(UUID(bytes=value) if isinstance(value, bytes) else value)
        case "decimal":
            return f"{value:f}"
        case "date":
            return (value if isinstance(value, date) else date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case _:  # some writers do not annotate text
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
