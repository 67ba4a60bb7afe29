"""Former columns: key columns that the schema of a version no longer has, while files written before still do.

Such a column is added back to the schema by its field id under a name of our own, so that the rows of a person stay
hidden after the column is dropped. Files written since then have no such column: their rows belong to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.types import NestedField

_NAME = "__lakewarden_former_{}"


def dropped(schema: Schema, fields: Iterable[int]) -> list[int]:
    """Those of the fields that a schema does not have."""
    return [field_id for field_id in fields if schema.find_column_name(field_id) is None]


def with_former(metadata: TableMetadata, schema: Schema, fields: Iterable[int]) -> Schema | None:
    """The schema with the fields that it lacks, as optional columns; None if one of them cannot be read.

    That is so if no schema of the table has it, or if files without field ids have it under a name that now belongs to
    another column. A field within a struct is added within that struct, since files have it there.
    """
    from pyiceberg.schema import Schema

    columns: Sequence[NestedField] = schema.fields
    missing = dropped(schema, fields)
    mapping = metadata.name_mapping()
    if mapping is not None and not _mapped(mapping.root).issuperset(missing):
        return None
    for field_id in missing:
        former = next((each for each in reversed(metadata.schemas) if each.find_column_name(field_id)), None)
        if former is None:
            return None
        columns = _with(columns, _way_to(former.fields, field_id))
    if not missing:
        return schema
    return Schema(*columns, schema_id=max(each.schema_id for each in metadata.schemas) + 1)


def _mapped(fields: Iterable[MappedField]) -> set[int]:
    """The fields that files without field ids have by name."""
    found: set[int] = set()
    for field in fields:
        if field.names and field.field_id is not None:
            found |= {field.field_id, *_mapped(field.fields)}
    return found


def _way_to(fields: Sequence[NestedField], field_id: int) -> list[NestedField]:
    """The field, and before it the structs that it is within, outermost first; empty if it is not there."""
    from pyiceberg.types import StructType

    for field in fields:
        if field.field_id == field_id:
            return [field]
        within = _way_to(field.field_type.fields, field_id) if isinstance(field.field_type, StructType) else []
        if within:
            return [field, *within]
    return []


def _with(fields: Sequence[NestedField], way: Sequence[NestedField]) -> list[NestedField]:
    """Fields with another one added at the end of a way through structs, some of which may be missing too."""
    from pyiceberg.types import StructType

    first, *rest = way
    known = next((field for field in fields if field.field_id == first.field_id), None)
    if known is None:
        kind = StructType(*_with((), rest)) if rest else first.field_type
        named = {"name": _NAME.format(first.field_id), "field_type": kind, "required": False}
        return [*fields, first.model_copy(update=named)]  # with its default, which older files do not hold
    assert isinstance(known.field_type, StructType)
    kind = StructType(*_with(known.field_type.fields, rest))
    changed = known.model_copy(update={"field_type": kind})
    return [changed if field is known else field for field in fields]
