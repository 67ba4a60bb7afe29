"""How a table's columns changed since a version was written, and whether they can be restored.

Columns are identified by field id, never by name: a column that is dropped and added again is a different column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewarden.errors import Conflict

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from lakewarden.engine.catalog.tables import Resolved


def written_with(version: Resolved) -> Schema | None:
    """The schema a version was written with; none if its writer did not record it or it was removed."""
    wanted, known = version.snapshot.schema_id, version.table.metadata.schemas
    if wanted is None and len(known) == 1 and version.table.metadata.current_schema_id == 0:  # never another one
        return known[0]
    return next((schema for schema in known if schema.schema_id == wanted), None)


def changes_since(then: Schema, now: Schema) -> list[str]:
    """Descriptions of the changes between two schemas; empty if they are equal."""
    if then == now:
        return []
    before, after = _by_id(then), _by_id(now)
    changes = [*_named("dropped", before, after), *_named("added", after, before)]
    for id in sorted(before.keys() & after.keys()):
        changes += _changes(*before[id], *after[id])
    if [field.field_id for field in then.fields if field.field_id in after] != [
        field.field_id for field in now.fields if field.field_id in before
    ]:
        changes.append("order of columns changed")
    if set(then.identifier_field_ids) != set(now.identifier_field_ids):
        changes.append("identifier fields changed")
    return changes or ["defaults of columns changed"]


def refuse_unfit(version: Resolved, then: Schema) -> None:
    """Refuse a schema without the columns that the table is partitioned or sorted by: no engine could load it."""
    table, now, wanted = version.table, version.table.schema(), _by_id(then)
    partitioned = [("partitioned", field.source_id, field.transform) for field in table.spec().fields]
    ordered = [("sorted", field.source_id, field.transform) for field in table.sort_order().fields]
    for how, source, transform in [*partitioned, *ordered]:
        name = now.find_column_name(source) or f"#{source}"
        found = wanted.get(source)
        if found is not None and transform.can_transform(found[1].field_type):
            continue
        lacks = "does not have" if found is None else f"has as {found[1].field_type}"
        raise Conflict(
            f"{version.name} is {how} by {transform}({name}), which the schema of {version.reference} {lacks}",
            f"Change how the table is {how} first, then roll back with --with-schema; or roll back without it.",
        )


def statements_back(version: Resolved, then: Schema) -> list[tuple[str, NestedField, str]]:
    """The statements that undo the changes: columns to drop, and columns to rename with their old name.

    Refused if they cannot undo everything: a column that is added again gets a new id, so its old values would not be
    read, and types cannot be narrowed.
    """
    now, before = version.table.schema(), {field.field_id: field for field in then.fields}
    steps = [("drop", field, "") for field in now.fields if field.field_id not in before]
    steps += [
        ("rename", field, before[field.field_id].name)
        for field in now.fields
        if field.field_id in before and field.name != before[field.field_id].name
    ]
    taken = {field.name for field in now.fields if field.field_id in before}
    left = changes_since(then, _undone(now, steps))
    left += [f"{field.name} took the name of another column" for _, field, name in steps if name in taken]
    if left:
        raise Conflict(
            f"{version.name} is in format v{version.table.metadata.format_version}, and Iceberg's statements on Spark "
            f"cannot undo this: {', '.join(left)}",
            "They can drop and rename columns, but a column that is added again loses its old values, and types cannot "
            "be narrowed. Roll back without --with-schema; a REST catalog can restore any schema.",
        )
    return steps


def _undone(now: Schema, steps: list[tuple[str, NestedField, str]]) -> Schema:
    from pyiceberg.schema import Schema

    dropped = {field.field_id for what, field, _ in steps if what == "drop"}
    renamed = {field.field_id: name for what, field, name in steps if what == "rename"}
    kept = (field for field in now.fields if field.field_id not in dropped)
    fields = [field.model_copy(update={"name": renamed.get(field.field_id, field.name)}) for field in kept]
    return Schema(*fields, identifier_field_ids=[id for id in now.identifier_field_ids if id not in dropped])


def other_branches(table: Table) -> list[str]:
    """Branches other than main; they are read with the table's current schema too."""
    refs = sorted(table.metadata.refs.items())
    return [name for name, ref in refs if str(ref.snapshot_ref_type) == "branch" and name != "main"]


_Fields = dict[int, tuple[str, "NestedField"]]


def _by_id(schema: Schema) -> _Fields:
    """All fields with their full names, including nested ones."""
    return {id: (schema.find_column_name(id) or "", schema.find_field(id)) for id in sorted(schema.field_ids)}


def _named(what: str, these: _Fields, those: _Fields) -> Iterator[str]:
    """Fields that only one of two schemas has; fields nested in one of them are left out."""
    names = sorted(name for id, (name, _) in these.items() if id not in those)
    for name in names:
        if not any(name.startswith(f"{outer}.") for outer in names):
            yield f"{name} {what}"


def _changes(was: str, before: NestedField, name: str, after: NestedField) -> Iterator[str]:
    if was.rpartition(".")[2] != name.rpartition(".")[2]:
        yield f"{was} renamed to {name}"
    if before.field_type.is_primitive and before.field_type != after.field_type:
        yield f"{name} changed from {before.field_type} to {after.field_type}"
    if before.required != after.required:
        yield f"{name} {'is required now' if after.required else 'is no longer required'}"
    if (before.doc or "") != (after.doc or ""):
        yield f"comment of {name} changed"
