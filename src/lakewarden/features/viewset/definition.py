"""What a view set is: its definition, its columns, and the hash of its schema.

The definition is kept in the properties of its table, so that it is as safe as the rows. Besides the columns of its
SQL, the table has columns of its own: the identity of a partition (instance, begin, end, schema hash), by which the
table is partitioned, and what is known of a partition as a whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lakewarden.engine.base.faults import translating
from lakewarden.engine.sql.statement import Statement
from lakewarden.errors import BrokenTable, NotFound, TableNotFound, UnsupportedTable, did_you_mean
from lakewarden.features.viewset.stored_times import Stored, stored_times, without_doubled
from lakewarden.quantities import Duration

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader

log = logging.getLogger(__name__)
PROPERTY = "lakewarden.viewset"
KEPT = "lakewarden.viewset.kept"
"""The table property with the former schema hashes whose partitions count as current, by the hash they count as."""
HISTORY = "lakewarden.viewset.history"
"""The table property with former definitions and their columns, by schema hash: see `history.py`."""
EMPTY_SUFFIX = "__empty"
"""The table beside a view set's own that lists partitions without rows: they have no file."""
NAMESPACE = "viewsets"
GLOBAL = "global"
INSTANCE, BEGIN, END, HASH = "view_instance_id", "begin_insert_time", "end_insert_time", "file_schema_hash"
SOURCE_HASH, UPDATED = "source_data_hash", "updated"
IDENTITY = (INSTANCE, BEGIN, END, HASH)
OWN = (*IDENTITY, SOURCE_HASH, UPDATED)
_HASH_DIGITS = 16


class Definition(BaseModel):
    """A view set as its author writes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$", description="Its name.")
    source: str = Field(description="The table that it is made of.")
    insert_time: str = Field(description="The source's column that decides which rows belong to which partition.")
    event_time: str | None = Field(None, description="The view's column with the time of an event.")
    instances: str | None = Field(None, description="A column of the source: one more instance for each of its values.")
    schema_version: int | None = Field(None, description="Counts towards the schema hash.")
    keep: Duration | None = Field(None, description="Older partitions are outdated.")
    target: str = Field("", description="Its table; viewsets.NAME by default.")
    sql: str = Field(description="One SELECT in Spark's SQL over a range of insert times: {begin} to {end}.")

    @field_validator("sql")
    @classmethod
    def _one_select(cls, sql: str) -> str:
        Statement.parse(sql)
        return sql

    @property
    def table(self) -> str:
        return self.target or f"{NAMESPACE}.{self.name}"

    @property
    def statement(self) -> Statement:
        return Statement(self.sql)


@dataclass(frozen=True)
class ViewSet:
    """A registered view set."""

    definition: Definition
    table_name: TableName
    table: Table

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The names and types of the columns of its SQL."""
        return columns_of(self.table.schema())

    @cached_property
    def schema_hash(self) -> str:
        schema = self.table.schema()
        return self.hash_of(columns_with_ids(schema), inner_ids(schema), self.definition.schema_version)

    def hash_of(
        self, columns: Mapping[str, tuple[int, str]], inner: Mapping[str, list[int]], version: int | None
    ) -> str:
        """The schema hash of columns that its table has, had or will have."""
        metadata = self.table.metadata
        schemas = sorted(metadata.schemas, key=lambda schema: schema.schema_id)
        return hash_of(columns, version, metadata.properties, schemas, inner)

    @cached_property
    def kept(self) -> frozenset[str]:
        """The hashes of former schemas whose partitions count as current: `viewset heal` keeps them as they are."""
        return frozenset(self.stored_as(self.schema_hash)[1:])

    def stored_as(self, schema_hash: str, at: Snapshot | None = None) -> list[str]:
        """What the column file_schema_hash may hold in partitions with a hash, in main or an earlier version.

        A former schema only counts where none of its partitions has the time of others: before `viewset heal` retired
        these, and after a rollback to that, its rows would be there twice.
        """
        known: dict[str, list[str]] = json.loads(self.table.metadata.properties.get(KEPT) or "{}")
        kept = sorted(known.get(schema_hash, ()))
        return without_doubled([schema_hash, *kept], self.stored_partitions(at)) if kept else [schema_hash]

    def stored_partitions(self, at: Snapshot | None = None) -> set[Stored]:
        """The partitions with rows, with the hashes that they are stored with."""
        with translating(f"table {self.table_name}"):
            return set(stored_times(self.table, IDENTITY, at))

    def counts_as(self, stored: str) -> str:
        """The hash of a partition, given the one that it is stored with."""
        return self.schema_hash if stored in self.kept else stored

    @property
    def empty_table(self) -> str:
        return f"{self.table_name}{EMPTY_SUFFIX}"


def columns_of(schema: Schema) -> list[tuple[str, str]]:
    return [(field.name, type_text(field.field_type)) for field in schema.fields if field.name not in OWN]


def columns_with_ids(schema: Schema) -> dict[str, tuple[int, str]]:
    """The columns of a view set's SQL, each with its field id and type."""
    return {f.name: (f.field_id, type_text(f.field_type)) for f in schema.fields if f.name not in OWN}


def inner_ids(schema: Schema) -> dict[str, list[int]]:
    """The field ids inside the columns of a view set's SQL that are nested."""
    from pyiceberg.schema import Schema

    columns = (field for field in schema.fields if field.name not in OWN and not field.field_type.is_primitive)
    return {field.name: sorted(Schema(field).field_ids - {field.field_id}) for field in columns}


def hash_of(
    columns: Mapping[str, tuple[int, str]],
    version: int | None,
    properties: Mapping[str, str],
    schemas: Iterable[Schema] = (),
    inner: Mapping[str, list[int]] = MappingProxyType({}),
) -> str:
    """The schema hash of columns in a view set's table, given the table's properties and all its schemas.

    It covers their field ids if the table had the same columns under other ids: a column that was dropped and added
    again is another one. So a hash never claims values that a rewrite dropped, since no field id comes back. The same
    holds for the field ids inside nested columns, if those that it was registered with are recorded.
    """
    named = [(name, kind) for name, (_, kind) in columns.items()]
    plain, ids = schema_hash(named, version), {name: id for name, (id, _) in columns.items()}
    history = json.loads(properties.get(HISTORY) or "{}")
    if HISTORY in properties:
        before = history.get(plain)
        known = before and [{name: id for name, (id, _) in one["columns"].items()} for one in before]
    else:  # registered when there was no history yet: the first of such columns have the plain hash
        same = [columns_with_ids(one) for one in schemas if sorted(columns_of(one)) == sorted(named)]
        known = [{name: id for name, (id, _) in one.items()} for one in same[:1]] or None
    hashed = {"columns": sorted(named), "version": version, "ids": ids}
    found = plain if known is None or ids in known else _short(hashed)
    registered = [one.get("inner", {}) for one in history.get(found, ())]
    if not registered or any(all(one.get(name, inner[name]) == inner[name] for name in inner) for one in registered):
        return found
    return _short({**hashed, "inner": inner})


def schema_hash(columns: list[tuple[str, str]], version: int | None) -> str:
    """The hash of the columns, whatever their order, and of the declared version, as short text."""
    return _short({"columns": sorted(columns), "version": version})


def _short(hashed: Mapping[str, Any]) -> str:
    canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_HASH_DIGITS]


def type_text(kind: Any) -> str:
    """A type without field ids and comments."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{field.name}: {type_text(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{type_text(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.value_type)}>"
    return str(kind)


def all_view_sets(lake: Reader) -> list[ViewSet]:
    """Every registered view set, by name; those whose table cannot be read are left out."""

    def registered(name: TableName) -> ViewSet | None:
        try:
            return _registered(lake, name)
        except (TableNotFound, BrokenTable, UnsupportedTable) as error:  # the others are still there
            log.warning("%s is left out of view sets: %s", name, error)
            return None

    found = lake.tables.read_all(lake.tables.names(), registered)
    return sorted((one for one in found if one is not None), key=lambda one: one.name)


def view_set(lake: Reader, name: str) -> ViewSet:
    """The view set with this name."""
    try:
        usual = _registered(lake, lake.tables.name(f"{NAMESPACE}.{name}"))
        if usual is not None and usual.name == name:
            return usual
    except TableNotFound:
        pass
    known = {one.name: one for one in all_view_sets(lake)}
    if name in known:
        return known[name]
    raise NotFound(f"there is no view set {name}", did_you_mean(name, known, "Register it with: viewset register FILE"))


def view_set_of(lake: Reader, table: str) -> ViewSet:
    """The view set that a table belongs to."""
    found = _registered(lake, lake.tables.name(table))
    if found is None:
        raise NotFound(f"{table} is not the table of a view set", "lakewarden viewset list shows view sets.")
    return found


def chosen(lake: Reader, name: str | None) -> list[ViewSet]:
    """One view set, or all."""
    return [view_set(lake, name)] if name is not None else all_view_sets(lake)


def _registered(lake: Reader, name: TableName) -> ViewSet | None:
    return of_table(name, lake.tables.load(name))


def of_table(name: TableName, table: Table) -> ViewSet | None:
    """The view set that a table belongs to."""
    text = table.metadata.properties.get(PROPERTY)
    if text is None:
        return None
    try:
        return ViewSet(Definition.model_validate_json(text), name, table)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BrokenTable(
            f"table {name}: its property {PROPERTY} is not a definition: {wrong['msg']}",
            "Register the view set again.",
        ) from None
