"""Creates a table once: its properties name the action, so that a resumed run recognises its own table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import translating
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.publish import Attempt
from lakewarden.engine.spark.statements import TableStatements
from lakewarden.errors import AlreadyExists, NotFound, TableNotFound

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder

    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.spark.session import Spark

CREATED_BY = "lakewarden.created-by"
_FORMAT = "format-version"
_DEFAULTS = {"write.parquet.compression-codec": "zstd"}  # as engines set it; without it, Spark would write gzip


@dataclass(frozen=True, kw_only=True)
class CreateTable(Change[str]):
    """A table to create. Publishing returns its UUID; the catalog assigns new column ids."""

    uuid: str = ""
    schema: Schema
    spec: PartitionSpec | None = None
    order: SortOrder | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None

    def needs_spark(self, tables: Tables) -> bool:
        return int(self.properties.get(_FORMAT, "2")) > 2

    def publish(self, desk: Desk) -> str:
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        from pyiceberg.table import CreateTableTransaction
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
        from pyiceberg.table.update import AssertCreate

        name = desk.tables.name(self.table)
        catalog = desk.tables.catalog(name)
        staged: list[CreateTableTransaction] = []

        def stage() -> Table:
            with translating(f"table {name}"):
                if not catalog.namespace_exists(name.namespace):
                    raise NotFound(f"no namespace {'.'.join(name.namespace)} in lake {name.lake}", "Create it first.")
                staged[:] = [
                    catalog.create_table_transaction(
                        name.identifier,
                        self.schema,
                        self.location,
                        self.spec or UNPARTITIONED_PARTITION_SPEC,
                        self.order or UNSORTED_SORT_ORDER,
                        {**_DEFAULTS, **self.properties, CREATED_BY: desk.stamp.file_prefix},
                    )
                ]
            return staged[0]._table

        def attempt(table: Table) -> Attempt | None:
            if self._own(desk) is not None:
                return None
            return Attempt((AssertCreate(),), staged[0]._updates)

        if self._own(desk) is None:
            desk.publisher.publish_on(str(name), stage, attempt)
        table = self._own(desk)
        assert table is not None  # else it was dropped right after it was created
        return str(table.metadata.table_uuid)

    def publish_through_spark(self, desk: Desk, spark: Spark) -> str:
        """Create it in format v2, then upgrade it with Spark while it is empty."""
        uuid = replace(self, properties={**self.properties, _FORMAT: "2"}).publish(desk)
        wanted = self.properties[_FORMAT]
        if desk.tables.load(self.table).metadata.format_version < int(wanted):
            statements = TableStatements(spark, desk.fence, desk.tables.name(self.table))
            statements.set_properties({_FORMAT: wanted})
        return uuid

    def _own(self, desk: Desk) -> Table | None:
        """The table, if this action created it; refused if another table has the name."""
        try:
            table = desk.tables.load(self.table)
        except TableNotFound:
            return None
        if table.metadata.properties.get(CREATED_BY) != desk.stamp.file_prefix:
            raise AlreadyExists(f"{self.table} exists already", "Nothing was changed. Choose another name, or drop it.")
        return table
