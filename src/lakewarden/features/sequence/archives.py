"""The Iceberg table that keeps the rows of a database table, and which partitions it has.

It has the columns of the database table, and one more, by which it is partitioned: where a row comes from. Each
partition is copied by one commit, whose summary says which range it was, and its checksums. So the archive itself
knows what it has, whatever happens to the control database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.table_name import Reference, TableName
from lakewarden.engine.catalog.snapshot_removal import SEQUENCE
from lakewarden.engine.catalog.snapshots import MAIN, ancestors, notes_of
from lakewarden.engine.commit.created_table import CreateTable
from lakewarden.engine.commit.evolved_schema import EvolveSchema, NewColumn
from lakewarden.errors import StalePlan, TableNotFound, UnfitDatabase
from lakewarden.features.sequence.checksums import Checksums, in_lake
from lakewarden.features.sequence.columns import PARTITION, Column
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, Position, has_rows

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.config import SequenceSettings
    from lakewarden.features.sequence.connection import Reading
    from lakewarden.lifecycle.ground import Reader, Writer

_WIDER = {"int": "long", "float": "double"}
_OWN = Column(PARTITION, "string", "", "")


@dataclass(frozen=True)
class Copied:
    """The stamp of a partition's commit."""

    partition: str
    after: Position | None
    below: Position | None
    rows: int
    sums: dict[str, int] = field(repr=False)

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @property
    def checksums(self) -> Checksums:
        return Checksums(self.rows, self.sums)

    @staticmethod
    def of(stamp: dict[str, Any]) -> Copied:
        bounds = {end: None if stamp[end] is None else tuple(stamp[end]) for end in ("after", "below")}
        return Copied(**{**stamp, **bounds})


def archive_name(lake: Reader, sequences: SequenceSettings, table: str) -> TableName:
    """The name of a table's archive: the configured one, or `archive.TABLE` in the first lake."""
    given = sequences.table(table).archive.table
    return lake.tables.name(given) if given else TableName(lake.settings.default_lake, ("archive",), table)


class ArchiveTable:
    """The archive of one database table, as it is when first looked at."""

    def __init__(self, lake: Reader, name: TableName, source: str) -> None:
        """`source` is the database table, as in `shop.orders`."""
        self._lake, self.name, self._source = lake, name, source
        self._prefix = f"{SEQUENCE}{source}."

    @cached_property
    def iceberg(self) -> Table | None:
        """The Iceberg table; None until the first partition is copied."""
        try:
            return self._lake.tables.load(self.name)
        except TableNotFound:
            return None

    def key(self, partition: str) -> str:
        return f"{self._prefix}{partition}"

    @cached_property
    def copies(self) -> dict[str, Copied]:
        """What main has, by partition."""
        return {} if self.iceberg is None else self._copies_in(self.iceberg)

    def copy_of(self, partition: Partition) -> Copied | None:
        """The copy of a partition; None if there is none, or one of other rows with the same name."""
        found = self.copies.get(partition.name)
        return found if found is not None and found.below == partition.bound else None

    def unmoved(self, partition: str, expected: Copied | None) -> Callable[[Table], None]:
        """A check for commits: that nobody else copied the partition meanwhile, nor another table's."""

        def check(table: Table) -> None:
            self._check_source(table)
            if self._copies_in(table).get(partition) != expected:
                raise StalePlan(
                    f"the plan is stale: another process copied {self._source}.{partition} to {self.name} meanwhile",
                    "Nothing was written. Plan again.",
                )

        return check

    def renamed(self, connection: Reading, table: PartitionedTable, there: Collection[str], partition: str = "") -> str:
        """A copy that is not of these partitions, though the table, or one partition, has rows of its range; mostly ''.

        Someone renamed or merged the partition that was copied: its rows would count twice.
        """
        for copy in self.copies.values():
            if copy.partition not in there and has_rows(connection, table, copy.after, copy.below, partition):
                return copy.partition
        return ""

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse an Iceberg table that cannot take the rows."""
        if self.iceberg is None:
            return
        self._check_source(self.iceberg)
        if self.iceberg.metadata.format_version > 2:
            raise UnfitDatabase(f"{self.name} is in format v3", "Archives are written in format v1 and v2.")
        schema, spec = self.iceberg.schema(), self.iceberg.spec()
        if [schema.find_column_name(each.source_id) for each in spec.fields] != [PARTITION]:
            raise UnfitDatabase(
                f"{self.name} is not an archive: it is not partitioned by {PARTITION}",
                "Name another table: archive: {table: …}.",
            )
        types = _types(schema)
        misfits = [
            f"{column.name} is {types[column.name]} and would be {column.type}"
            for column in columns
            if column.name in types and not _fits(types[column.name], column.type)
        ]
        if misfits:
            raise UnfitDatabase(
                f"{self._source} has changed since {self.name} was created: {'; '.join(misfits)}",
                "Rename the column in the archive, or name another table: archive: {table: …}.",
            )

    def prepare(self, lake: Writer, columns: Sequence[Column]) -> Table:
        """Create the Iceberg table, or add columns that the database table got since."""
        if self.iceberg is None:
            lake.tables.catalog(self.name).create_namespace_if_not_exists(self.name.namespace)
            lake.part("create").commits.publish(
                CreateTable(
                    str(self.name), schema=iceberg_schema([*columns, _OWN]), spec=_by_partition(len(columns) + 1)
                )
            )
            return lake.tables.load(self.name)
        known, last = _types(self.iceberg.schema()), self.iceberg.metadata.last_column_id
        wanted = {each.name: each.field_type for each in iceberg_schema(columns).fields}
        new = [column.name for column in columns if column.name not in known]
        wider = [column.name for column in columns if _WIDER.get(known.get(column.name, "")) == column.type]
        change = EvolveSchema(
            str(self.name),
            str(self.iceberg.metadata.table_uuid),
            expects=self.iceberg.metadata.current_schema_id,
            add=tuple(NewColumn(last + place, name, wanted[name]) for place, name in enumerate(new, start=1)),
            widen={self.iceberg.schema().find_field(name).field_id: wanted[name] for name in wider},
        )
        if change.changes:
            lake.part("evolve").commits.publish(change)
        return lake.tables.load(self.name)

    def columns(self, names: Iterable[str]) -> list[Column]:
        """Columns of the Iceberg table, to read them."""
        known = {} if self.iceberg is None else _types(self.iceberg.schema())
        return [Column(name, known[name], "", "") for name in names if name in known]

    def checksums(
        self, partition: str, position: Sequence[str], columns: Sequence[Column], branch: str = MAIN
    ) -> Checksums:
        """Read a partition's rows, also those that erasure requests hide, and compute their checksums."""
        from pyiceberg.expressions import In
        from pyiceberg.expressions import Reference as Term

        table = self._lake.tables.load(self.name)
        known = _types(table.schema())
        held = [column for column in columns if column.name in known]
        if branch not in table.metadata.refs:
            return Checksums(0, {column.name: 0 for column in held})
        version = self._lake.tables.resolve(str(Reference(self.name, branch)))
        names, only = [column.name for column in held], In(term=Term(PARTITION), literals={partition})
        _, batches = self._lake.rows.batches(version, columns=names, raw=True, only=only)
        return in_lake(batches, position, held)

    def _check_source(self, table: Table) -> None:
        """Refuse an archive of another database table: rows of both would be taken for one table's."""
        other = next((key for key in _stamps(table) if not key.startswith(self._prefix)), None)
        if other is not None:
            raise UnfitDatabase(
                f"{self.name} is the archive of {other.removeprefix(SEQUENCE).rpartition('.')[0]}",
                f"Name another table for {self._source}: archive: {{table: …}}.",
            )

    def _copies_in(self, table: Table) -> dict[str, Copied]:
        found = {key: stamp for key, stamp in _stamps(table).items() if key.startswith(self._prefix)}
        return {key.removeprefix(self._prefix): Copied.of(stamp) for key, stamp in found.items()}


def _stamps(table: Table) -> dict[str, dict[str, Any]]:
    """What was copied to main, of any database table."""
    kept = table.metadata.properties.items()
    found = {key: json.loads(text)["position"] for key, text in kept if key.startswith(SEQUENCE)}  # snapshots expired
    for id in reversed(list(ancestors(table, table.metadata.current_snapshot_id))):
        notes = notes_of(table.snapshot_by_id(id)).items()
        found |= {key: json.loads(text) for key, text in notes if key.startswith(SEQUENCE)}
    return found


def _types(schema: Schema) -> dict[str, str]:
    return {each.name: str(each.field_type) for each in schema.fields}


def _fits(known: str, wanted: str) -> bool:
    return known == wanted or _WIDER.get(known) == wanted or _WIDER.get(wanted) == known


def iceberg_schema(columns: Sequence[Column]) -> Schema:
    """The Iceberg schema of columns."""
    from pyiceberg.schema import Schema

    fields = [
        {"id": id, "name": column.name, "type": column.type, "required": False} for id, column in enumerate(columns, 1)
    ]
    return Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})


def _by_partition(id: int) -> Any:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(PartitionField(id, 1000, IdentityTransform(), PARTITION))
