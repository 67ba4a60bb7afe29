"""`viewset register`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lakewarden.engine.commit.created_table import CreateTable
from lakewarden.errors import AlreadyExists, BadValue, ColumnNotFound, TableNotFound, did_you_mean
from lakewarden.features.viewset.catalogue import partitions
from lakewarden.features.viewset.definition import (
    BEGIN,
    EMPTY_SUFFIX,
    END,
    GLOBAL,
    HASH,
    IDENTITY,
    INSTANCE,
    KEPT,
    OWN,
    PROPERTY,
    SOURCE_HASH,
    UPDATED,
    Definition,
    ViewSet,
    all_view_sets,
    columns_of,
    columns_with_ids,
    inner_ids,
    of_table,
    schema_hash,
)
from lakewarden.features.viewset.evolution import columns_after, evolution, inner_after
from lakewarden.features.viewset.former_columns import has_former_columns
from lakewarden.features.viewset.history import Former, begun, history_of, reads_of, recorded
from lakewarden.features.viewset.upgraded import refuse_upgraded
from lakewarden.features.viewset.ways.transition import Transition, transition
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Document, Operation, Positional
from lakewarden.lifecycle.requirement import TableIs, table_lease

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.commit.evolved_schema import EvolveSchema
    from lakewarden.lifecycle.ground import Reader, Writer

_PROPERTIES = {
    "format-version": "2",
    "write.distribution-mode": "hash",
    **{f"write.metadata.metrics.column.{name}": "full" for name in (SOURCE_HASH, UPDATED)},
}


class Register(Operation):
    """Register a view set, or change its definition.

    Its table is created, partitioned by instance, begin, end and schema hash. Registering the name again with other SQL
    changes the table's schema: a column with the same name and the same or a promotable type stays the same column, any
    other is dropped and added under a new field id. Partitions that were written before are then incompatible. If a
    column that was dropped comes back, partitions that had it stay incompatible until viewset heal moves its values:
    files that were rewritten meanwhile, by any engine, lack them.
    """

    definition: Annotated[Definition, Positional(), Document()] = Field(description="What the view set is.")

    def plan(self, lake: Reader) -> Plan:
        given = self.definition
        name = lake.tables.name(given.table)
        wanted = self._schema(lake)
        table = _existing(lake, name)
        if table is None:
            self._refuse_taken(lake, name)
            return Plan(self.kind(), str(name), (self._create(name, wanted), _create_empty(name, wanted)))
        if PROPERTY not in table.metadata.properties:
            raise AlreadyExists(f"{name} exists already and is not a view set", "Choose another target.")
        before = _before(name, table)
        if before.name != given.name:
            raise AlreadyExists(f"{name} belongs to the view set {before.name}", "Choose another target.")
        self._refuse_other_instances(lake, before)
        actions = self._change(lake, name, table, wanted, before)
        warnings = self._warnings(lake, before, wanted) if actions else ()
        if _existing(lake, lake.tables.name(before.empty_table)) is None:  # the first registration was not completed
            actions = (*actions, _create_empty(name, wanted))
        return Plan(self.kind(), str(name), actions, warnings)

    def _refuse_other_instances(self, lake: Reader, before: ViewSet) -> None:
        """Refuse instances of another column: the partitions do not show whose values theirs are."""
        former, now = before.definition.instances, self.definition.instances
        source = _existing(lake, lake.tables.name(before.definition.source))
        was_renamed = source is None or former not in source.schema().column_names
        if former in (None, now) or now is None or was_renamed:
            return
        if any(row.view_instance_id != GLOBAL for row in partitions(lake, before)):
            raise BadValue(
                f"instances: {before.name} has partitions whose instances are values of {former}, not of {now}",
                f"Reads and erasure requests would take them for values of {now}. Register another view set for these.",
            )

    def _refuse_taken(self, lake: Reader, name: TableName) -> None:
        """Refuse a name that another table has, and rows of a table that was not made for this view set."""
        given = self.definition
        same = (one for one in all_view_sets(lake) if one.name == given.name and one.table_name != name)
        other = next(same, None)
        if other is not None:
            raise AlreadyExists(
                f"the view set {given.name} has the table {other.table_name}",
                f"Give it another name, or register it with target: {other.table_name}",
            )
        empty = f"{name}{EMPTY_SUFFIX}"
        beside = _existing(lake, lake.tables.name(empty))
        is_unused = beside is None or (set(beside.schema().column_names) == set(OWN) and not beside.metadata.snapshots)
        if not is_unused:  # if it is, an earlier registration failed
            raise AlreadyExists(
                f"{empty} exists already, but {name} does not",
                "It would list partitions of this view set. Drop or rename it, or choose another target.",
            )

    def holds(self, action: Action, lake: Reader) -> bool:
        table = _existing(lake, lake.tables.name(action.subject))
        if table is None:
            return False
        if action.verb == "create-empty":
            return True
        is_defined = table.metadata.properties.get(PROPERTY) == self.definition.model_dump_json()
        if not is_defined or has_former_columns(_before(lake.tables.name(action.subject), table)):
            return False
        return schema_hash(columns_of(table.schema()), None) == action.arguments["columns"]

    def apply(self, action: Action, lake: Writer) -> Outcome:
        from pyiceberg.schema import Schema

        name, schema = lake.tables.name(action.subject), Schema.model_validate_json(str(action.arguments["schema"]))
        if action.verb == "change":
            table = lake.tables.load(name)
            change = evolution(_before(name, table), schema, self.definition)
            properties = {**change.properties, **self._recorded(lake, table, schema, change)}
            lake.commits.publish(replace(change, properties=properties))
            return Outcome({"schema_hash": self._hash_after(_before(name, table), schema, change)})
        lake.tables.catalog(name).create_namespace_if_not_exists(name.namespace)
        is_empty = action.verb == "create-empty"
        if not is_empty:
            self._refuse_taken(lake, name)
        properties = {} if is_empty else self._first_properties(lake, schema)
        lake.commits.publish(
            CreateTable(
                str(name),
                schema=schema,
                spec=None if is_empty else _spec(schema),
                properties={**_PROPERTIES, **properties},
            )
        )
        return Outcome({} if is_empty else {"schema_hash": self._hash(schema)})

    def _first_properties(self, lake: Reader, schema: Schema) -> dict[str, str]:
        reads = reads_of(lake, self.definition)
        columns, inner = columns_with_ids(schema), inner_ids(schema)
        now = Former(definition=self.definition, columns=columns, reads=reads, inner=inner)
        return {PROPERTY: self.definition.model_dump_json(), **begun(self._hash(schema), now)}

    def _recorded(self, lake: Reader, table: Table, schema: Schema, change: EvolveSchema) -> dict[str, str]:
        """The properties that say what partitions are written with from now on."""
        now = self._now(lake, table, schema, change)
        known = table.metadata.properties
        before = _before(lake.tables.name(change.table), table)
        new = self._hash_after(before, schema, change)
        return {**recorded(known, new, now), **({KEPT: "{}"} if KEPT in known and new != before.schema_hash else {})}

    def _now(self, lake: Reader, table: Table, schema: Schema, change: EvolveSchema) -> Former:
        columns, inner = columns_after(table, schema, change), inner_after(table, change)
        reads = reads_of(lake, self.definition)
        return Former(definition=self.definition, columns=columns, reads=reads, inner=inner)

    def _hash(self, schema: Schema) -> str:
        return schema_hash(columns_of(schema), self.definition.schema_version)

    def _hash_after(self, before: ViewSet, wanted: Schema, change: EvolveSchema) -> str:
        columns, inner = columns_after(before.table, wanted, change), inner_after(before.table, change)
        return before.hash_of(columns, inner, self.definition.schema_version)

    def _create(self, name: TableName, schema: Schema) -> Action:
        return Action(
            verb="create",
            subject=str(name),
            lease=f"name:{name}",
            says=f"create the view set {self.definition.name} with schema {self._hash(schema)}",
            arguments=self._arguments(schema),
        )

    def _arguments(self, schema: Schema) -> dict[str, str]:
        return {
            "schema": schema.model_dump_json(),
            "columns": schema_hash(columns_of(schema), None),
            "definition": self.definition.model_dump_json(),
        }

    def _change(
        self, lake: Reader, name: TableName, table: Table, schema: Schema, before: ViewSet
    ) -> tuple[Action, ...]:
        change = evolution(before, schema, self.definition)
        if before.definition == self.definition and not change.changes and not has_former_columns(before):
            return ()
        refuse_upgraded(lake, before)
        new = self._hash_after(before, schema, change)
        says = f"change its definition; the schema stays {new}"
        if new != before.schema_hash:
            says = (
                f"change its schema from {before.schema_hash} to {new}; partitions of the former are then incompatible"
            )
        uuid = str(table.metadata.table_uuid)
        return (
            Action(
                verb="change",
                subject=str(name),
                lease=table_lease(uuid),
                says=says,
                arguments=self._arguments(schema),
                requires=(TableIs(str(name), uuid),),
            ),
        )

    def _warnings(self, lake: Reader, before: ViewSet, wanted: Schema) -> tuple[str, ...]:
        """Partitions with the new schema's hash may be there already, written with other SQL."""
        table = before.table
        change = evolution(before, wanted, self.definition)
        new = self._hash_after(before, wanted, change)
        former = (history_of(table.metadata.properties) or {}).get(new, [])
        now = self._now(lake, table, wanted, change)
        found = transition(former, now) if former else Transition()
        if found.reads_as_it_is or not any(row.file_schema_hash == new for row in partitions(lake, before)):
            return ()
        told = f"partitions of schema {new} are there already and count as current, but {found.why_not}"
        return (f"{told}; regenerate them, or give the view set another schema_version",)

    def _schema(self, lake: Reader) -> Schema:
        """The columns of its SQL and its own, checked."""
        given = self.definition
        statement = given.statement
        versions = {spelled: lake.tables.resolve(spelled) for spelled in statement.tables}
        if given.source not in versions:
            raise BadValue(
                f"the SQL does not read {given.source}", f"It reads {', '.join(versions)}. Name one of them as source."
            )
        for spelled, version in versions.items():
            inner = of_table(version.name, version.table)
            if inner is not None:
                raise BadValue(
                    f"the SQL reads {spelled}, the table of the view set {inner.name}",
                    "It has rows of several instances and schemas. Read what that view set is made of.",
                )
        source = versions[given.source]
        _check_column(source, given.insert_time, "insert_time", ("timestamptz", "timestamp"))
        if given.instances is not None:
            _check_column(source, given.instances, "instances", ())
        output = lake.queries.output(statement, versions)
        names = output.names
        for name in names:
            if name in OWN:
                raise BadValue(f"the SQL has a column {name}, which view sets have themselves", "Give it another name.")
        if len(set(names)) < len(names):
            raise BadValue("two columns of the SQL have the same name", "Name them with AS.")
        if given.event_time is not None and given.event_time not in names:
            raise ColumnNotFound(
                f"event_time: the SQL has no column {given.event_time}",
                did_you_mean(given.event_time, names, f"It has {', '.join(names)}."),
            )
        return _as_iceberg(output)


def _create_empty(name: TableName, schema: Schema) -> Action:
    empty = f"{name}{EMPTY_SUFFIX}"
    return Action(
        verb="create-empty",
        subject=empty,
        lease=f"name:{empty}",
        says="create the table that lists its partitions without rows",
        arguments={"schema": schema.select(*OWN).model_dump_json()},
    )


def _before(name: TableName, table: Table) -> ViewSet:
    """The view set as it is registered now."""
    return ViewSet(Definition.model_validate_json(table.metadata.properties[PROPERTY]), name, table)


def _existing(lake: Reader, name: TableName) -> Table | None:
    try:
        return lake.tables.load(name)
    except TableNotFound:
        return None


def _check_column(source: Resolved, column: str, key: str, types: tuple[str, ...]) -> None:
    schema = source.table.schema()
    known: Mapping[str, Any] = {field.name: field for field in schema.fields}
    if column not in known:
        raise ColumnNotFound(
            f"{key}: {source.name} has no column {column}",
            did_you_mean(column, known, f"It has {', '.join(known)}."),
        )
    if types and str(known[column].field_type) not in types:
        raise BadValue(
            f"{key}: {column} is of type {known[column].field_type}", f"It must be of type {' or '.join(types)}."
        )


def _as_iceberg(arrow: pa.Schema) -> Schema:
    """An Iceberg schema of a query's columns and a view set's own, all optional, with fresh ids."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.schema import Schema, assign_fresh_schema_ids
    from pyiceberg.types import NestedField, StringType, TimestamptzType

    columns = _pyarrow_to_schema_without_ids(pa.schema([_in_utc(field) for field in arrow])).fields
    own: dict[str, IcebergType] = {
        INSTANCE: StringType(),
        BEGIN: TimestamptzType(),
        END: TimestamptzType(),
        HASH: StringType(),
        SOURCE_HASH: StringType(),
        UPDATED: TimestamptzType(),
    }
    fields = [NestedField(-1, field.name, field.field_type, required=False) for field in columns]
    fields += [NestedField(-1, name, kind, required=False) for name, kind in own.items()]
    return assign_fresh_schema_ids(Schema(*fields))


def _in_utc(field: pa.Field) -> pa.Field:
    import pyarrow as pa

    def kind(given: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(given):
            return pa.timestamp("us", tz="UTC" if given.tz else None)
        if pa.types.is_struct(given):
            return pa.struct([_in_utc(inner) for inner in given])
        if pa.types.is_list(given):
            return pa.list_(_in_utc(given.value_field))
        if pa.types.is_map(given):
            return pa.map_(_in_utc(given.key_field), _in_utc(given.item_field))
        return given

    return field.with_type(kind(field.type))


def _spec(schema: Schema) -> Any:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(
        *(
            PartitionField(schema.find_field(name).field_id, 1000 + place, IdentityTransform(), name)
            for place, name in enumerate(IDENTITY)
        )
    )
