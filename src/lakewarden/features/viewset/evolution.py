"""How the table of a view set changes when its SQL gives other columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.commit.evolved_schema import EvolveSchema, NewColumn
from lakewarden.features.shared.columns import promotes
from lakewarden.features.viewset.definition import (
    OWN,
    PROPERTY,
    Definition,
    ViewSet,
    columns_with_ids,
    inner_ids,
    type_text,
)
from lakewarden.features.viewset.former_columns import lasting_columns

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType


def evolution(before: ViewSet, wanted: Schema, definition: Definition) -> EvolveSchema:
    """The change after which a table has the wanted columns.

    A column with the same name and the same or a promotable type stays the same column, any other is dropped and added.
    One that the table had before is added under a new id: files that were rewritten since lack its former values. So is
    one that others brought back with a former schema.
    """
    name, table = str(before.table_name), before.table
    known = {field.name: field for field in table.schema().fields if field.name not in OWN}
    asked = {field.name: field for field in wanted.fields if field.name not in OWN}
    lasting = lasting_columns(before)
    drop, widen, add = [], {}, []
    for column, field in known.items():
        new, (_, was) = asked.get(column), lasting.get(column, (0, ""))
        kind = type_text(new.field_type) if new is not None else ""
        if new is None or not (was == kind or promotes(was, kind)):
            drop.append(field.field_id)
        elif type_text(field.field_type) != kind:
            widen[field.field_id] = new.field_type
    kept = {field.name for field in known.values() if field.field_id not in drop}
    next_id = table.metadata.last_column_id + 1
    for column, new in asked.items():
        if column not in kept:
            add.append(NewColumn(next_id, column, new.field_type))
            next_id += 1 + _inner(new.field_type)
    uuid, expects = str(table.metadata.table_uuid), table.metadata.current_schema_id
    properties = {PROPERTY: definition.model_dump_json()}
    return EvolveSchema(name, uuid, expects, tuple(add), tuple(drop), widen=widen, properties=properties)


def columns_after(table: Table, wanted: Schema, change: EvolveSchema) -> dict[str, tuple[int, str]]:
    """The columns of the SQL as the table has them after a change."""
    ids = {name: id for name, (id, _) in columns_with_ids(table.schema()).items() if id not in change.drop}
    ids |= {new.name: new.id for new in change.add}
    return {name: (ids[name], kind) for name, (_, kind) in columns_with_ids(wanted).items()}


def inner_after(table: Table, change: EvolveSchema) -> dict[str, list[int]]:
    """The field ids inside nested columns of the SQL after a change: those of a new column follow its own."""
    left = {name for name, (id, _) in columns_with_ids(table.schema()).items() if id not in change.drop}
    new = {one.name: [one.id + number + 1 for number in range(_inner(one.type))] for one in change.add}
    kept = {name: ids for name, ids in inner_ids(table.schema()).items() if name in left}
    return kept | {name: ids for name, ids in new.items() if ids}


def _inner(kind: IcebergType) -> int:
    """How many field ids a type takes besides that of its column."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    return len(Schema(NestedField(10**6, "x", kind, required=False))._lazy_id_to_field) - 1
