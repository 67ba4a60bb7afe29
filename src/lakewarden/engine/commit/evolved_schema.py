"""Adds, drops, renames and widens columns in one commit.

Columns, including new ones, are identified by id, which shows whether a change was made already: a resumed run changes
nothing. Refused if others changed the schema since planning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import first_line
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.publish import Attempt, at_refs, check_identity
from lakewarden.engine.spark.statements import TableStatements
from lakewarden.errors import BadValue, Conflict, StalePlan

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.types import IcebergType, NestedField

    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.spark.session import Spark

_SPARK_TYPES = {"long": "BIGINT", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}
_SAME_IN_SPARK = ("boolean", "int", "float", "double", "string", "binary", "date", "decimal(")


@dataclass(frozen=True)
class NewColumn:
    """An optional column with its id: the next one that the table has not used."""

    id: int
    name: str
    type: IcebergType
    doc: str | None = None
    parent: int | None = None
    """The struct that contains it; None for a top-level column."""


@dataclass(frozen=True)
class EvolveSchema(Change[int]):
    """Changes of columns, by id. Publishing returns the id of the resulting schema."""

    expects: int
    """The id of the schema at planning."""
    add: tuple[NewColumn, ...] = ()
    drop: tuple[int, ...] = ()
    rename: Mapping[int, str] = field(default_factory=dict)
    widen: Mapping[int, IcebergType] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the table to set in the same commit; not through Spark."""

    @property
    def changes(self) -> bool:
        """Whether it changes columns, and not only properties."""
        return bool(self.add or self.drop or self.rename or self.widen)

    def publish(self, desk: Desk) -> int:
        def attempt(table: Table) -> Attempt | None:
            from pyiceberg.table.update import AssertLastAssignedFieldId, SetPropertiesUpdate

            known = table.metadata.properties
            if all(self._done(table.schema())) and all(known.get(k) == v for k, v in self.properties.items()):
                return None
            self._check(table)
            updates, requires = self._update(table)
            if self.properties:
                updates = (*updates, SetPropertiesUpdate(updates=dict(self.properties)))
            last = AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": table.metadata.last_column_id})
            return Attempt((*at_refs(self.uuid, {}), *requires, last), updates)

        desk.publisher.publish(self.table, self.uuid, attempt)
        return desk.tables.load(self.table).metadata.current_schema_id

    def publish_through_spark(self, desk: Desk, spark: Spark) -> int:
        """One statement per column; statements that an earlier run completed are skipped."""
        name = desk.tables.name(self.table)
        if self.properties:
            raise Conflict(
                f"{name}: in its format, columns and properties cannot be changed in one commit", "Nothing was changed."
            )
        spark.session()  # starting it takes long, so check afterwards
        table = desk.tables.load(name)
        check_identity(table, self.table, self.uuid)
        if not any(self._done(table.schema())):
            self._check(table)
        self._run(table.schema(), TableStatements(spark, desk.fence, name))
        now = desk.tables.load(name)
        if not all(self._done(now.schema())):
            raise StalePlan(f"the plan is stale: the schema of {self.table} was changed concurrently", "Plan again.")
        return now.metadata.current_schema_id

    def _run(self, schema: Schema, statements: TableStatements) -> None:
        for new in self.add:
            if _find(schema, new.id) is None:
                statements.add_column((*_path(schema, new.parent), new.name), _spark_type(self.table, new.type))
        for id, kind in self.widen.items():
            if schema.find_type(id) != kind:
                statements.widen_column(_path(schema, id), _spark_type(self.table, kind))
        for id in self.drop:
            if _find(schema, id) is not None:
                statements.drop_column(_path(schema, id))
        for id, name in self.rename.items():
            if schema.find_field(id).name != name:
                statements.rename_column(_path(schema, id), name)

    def _done(self, schema: Schema) -> list[bool]:
        """For each step, whether the schema has it already."""
        return [
            *(_name(schema, new.id) == new.name for new in self.add),
            *(_find(schema, id) is None for id in self.drop),
            *(_name(schema, id) == name for id, name in self.rename.items()),
            *((found := _find(schema, id)) is not None and found.field_type == kind for id, kind in self.widen.items()),
        ]

    def _check(self, table: Table) -> None:
        """Refuse if others changed the schema, or if something depends on a column to drop."""
        schema, metadata = table.schema(), table.metadata
        if metadata.current_schema_id != self.expects:
            was_and_is = f"was {self.expects} and is now {metadata.current_schema_id}"
            raise StalePlan(
                f"the plan is stale: the schema of {self.table} {was_and_is}", "Nothing was changed. Plan again."
            )
        missing = [id for id in (*self.drop, *self.rename, *self.widen) if _find(schema, id) is None]
        if missing:
            raise BadValue(f"{self.table} has no column with the id {missing[0]}", "Nothing was changed.")
        used = {one.source_id for one in metadata.spec().fields} | {one.source_id for one in table.sort_order().fields}
        needed = [id for id in self.drop if id in used or id in schema.identifier_field_ids]
        if needed:
            raise Conflict(
                f"{self.table} is partitioned, sorted or identified by column {schema.find_column_name(needed[0])}",
                "Nothing was changed. Change that first, then drop the column.",
            )

    def _update(self, table: Table) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        from pyiceberg.exceptions import ValidationError

        schema, update = table.schema(), table.update_schema()
        try:
            for id in self.drop:  # first, since a new column may have the name of one that goes
                update.delete_column(_path(schema, id))
            for new in self.add:
                update.add_column((*_path(schema, new.parent), new.name), new.type, new.doc)
            for id, kind in self.widen.items():
                update.update_column(_path(schema, id), field_type=kind)
            for id, name in self.rename.items():
                update.rename_column(_path(schema, id), name)
            updates, requires = update._commit()
        except (ValueError, ValidationError) as error:
            raise BadValue(f"{self.table}: {first_line(error)}", "Nothing was changed.") from error
        for new in self.add:
            assigned = update._added_name_to_id[".".join((*_path(schema, new.parent), new.name))]
            if assigned != new.id:
                raise BadValue(
                    f"{self.table}: the id of the new column {new.name} must be {assigned}, not {new.id}",
                    "Nothing was changed.",
                )
        return updates, requires


def _find(schema: Schema, id: int) -> NestedField | None:
    try:
        return schema.find_field(id)
    except ValueError:
        return None


def _name(schema: Schema, id: int) -> str | None:
    found = _find(schema, id)
    return found.name if found else None


def _path(schema: Schema, id: int | None) -> tuple[str, ...]:
    if id is None:
        return ()
    return (*_path(schema, schema._lazy_id_to_parent.get(id)), schema.find_field(id).name)


def _spark_type(table: str, kind: IcebergType) -> str:
    text = str(kind)
    if text in _SPARK_TYPES or text.startswith(_SAME_IN_SPARK):
        return _SPARK_TYPES.get(text, text)
    raise BadValue(f"{table}: a column of type {kind} cannot be added in this table's format", "Add it with Spark.")
