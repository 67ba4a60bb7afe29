"""Filters out hidden rows: those whose key columns hold values that are to be erased.

Few values become part of the reader's filter. Many are looked up row by row in a set, and so are values of a column
that got a wider type, or that the version no longer has: it is read too, and left out of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.rows.former_columns import with_former
from lakewarden.engine.rows.keys import as_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.records.erasure import HiddenKey

_FEW = 2_000


@dataclass(frozen=True)
class Hiding:
    """What is hidden in one version of a table, by the column names of the schema to read it with."""

    schema: Schema
    few: tuple[tuple[str, HiddenKey], ...] = ()
    many: tuple[tuple[str, HiddenKey], ...] = ()

    @staticmethod
    def of(keys: Iterable[HiddenKey], schema: Schema, metadata: TableMetadata) -> Hiding | None:
        """The hidden keys of a table in a version with this schema; None if a key's column is in no schema any more."""
        keys = [key for key in keys if key.values]
        reading = with_former(metadata, schema, (key.field_id for key in keys))
        if reading is None:
            return None
        named = [(str(reading.find_column_name(key.field_id)), key) for key in keys]
        few = tuple(each for each in named if _fits_a_filter(each[1], schema, metadata))
        return Hiding(reading, few, tuple(each for each in named if each not in few))

    @property
    def hides(self) -> bool:
        return bool(self.few or self.many)

    def within(self, predicate: BooleanExpression) -> BooleanExpression:
        """Extend a filter to exclude the rows of the few values; rows with null belong to nobody, and stay."""
        from pyiceberg.expressions import And, IsNull, NotIn, Or, Reference

        for path, key in self.few:
            shown = NotIn(term=Reference(path), literals=set(as_arrow(key.kind, key.values).to_pylist()))
            predicate = And(predicate, Or(IsNull(term=Reference(path)), shown))
        return predicate

    def needs(self, selected: Sequence[str]) -> tuple[str, ...]:
        """The columns to read, including the keys; empty means all."""
        return (*selected, *(path for path, _ in self.many if path not in selected)) if selected else ()

    def left_out(self, batches: Iterable[pa.RecordBatch], wanted: pa.Schema, limit: int | None) -> Iterator[Any]:
        """Batches without the rows of the many values, with the wanted columns only."""
        import pyarrow as pa

        sets = [(path.split("."), as_arrow(key.kind, key.values)) for path, key in self.many]
        left = limit
        for read in batches:
            shown = _shown(read, sets)
            batch = shown.slice(0, left) if left is not None else shown
            columns = [_pruned(batch.column(field.name), field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)
            if left is not None:
                left -= batch.num_rows
                if left <= 0:
                    return


def _fits_a_filter(key: HiddenKey, schema: Schema, metadata: TableMetadata) -> bool:
    """Whether the reader's filter can compare a key: not UUIDs, and no values beyond the type of older files."""
    if len(key.values) > _FEW or key.kind == "uuid" or not schema.find_column_name(key.field_id):
        return False
    having = (one for one in metadata.schemas if one.find_column_name(key.field_id))
    return len({str(one.find_type(key.field_id)) for one in having}) == 1


def _shown(batch: Any, sets: Sequence[tuple[list[str], Any]]) -> Any:
    """The rows of a batch in which no key column holds a hidden value."""
    import pyarrow.compute as pc

    for path, hidden in sets:
        column, values = batch.column(path[0]), hidden
        for part in path[1:]:
            column = pc.struct_field(column, part)
        column, values = comparable(getattr(column, "storage", column), values)  # the storage of a UUID is its bytes
        batch = batch.filter(pc.invert(pc.is_in(column, value_set=values)))
    return batch


def comparable(column: Any, values: Any) -> tuple[Any, Any]:
    """Both arrays as one type, whichever was promoted. These casts cannot fail, so no error can quote a value."""
    import pyarrow as pa

    if column.type == values.type:
        return column, values
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()), values.cast(pa.int64())
    if pa.types.is_decimal(column.type):
        wide = pa.decimal128(38, column.type.scale)
        return column.cast(wide), values.cast(wide)
    return column, values.cast(column.type)


def _pruned(column: Any, wanted: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_struct(wanted) or column.type == wanted:
        return column
    fields = [wanted.field(place) for place in range(wanted.num_fields)]
    children = [_pruned(pc.struct_field(column, field.name), field.type) for field in fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(column))
