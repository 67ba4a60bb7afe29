"""The Iceberg table that keeps the rows of a database table, and which partitions it has.

It has the columns of the database table, and one more, by which it is partitioned: where a row comes from. Each
partition is copied by one commit, whose stamp says which range it was, and its checksums (`stamps.py`). So the archive
itself knows what it has, whatever happens to the control database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.table_name import Reference, TableName
from lakewarden.engine.catalog.snapshot_removal import SEQUENCE
from lakewarden.engine.catalog.snapshots import MAIN, ancestors, notes_of
from lakewarden.engine.catalog.tables import Resolved, find_snapshot
from lakewarden.engine.commit.created_table import CreateTable
from lakewarden.engine.commit.evolved_schema import EvolveSchema, NewColumn
from lakewarden.engine.spark.statements import unset_statement
from lakewarden.errors import StalePlan, TableNotFound, UnfitDatabase
from lakewarden.features.sequence.checksums import Checksums, in_lake
from lakewarden.features.sequence.columns import PARTITION, Column
from lakewarden.features.sequence.partitions import Partition, PartitionedTable, has_rows
from lakewarden.features.sequence.stamps import Copied, CopyStamp, by_partition, of_known_partitions, stamps_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.config import SequenceSettings
    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.features.sequence.connection import Reading
    from lakewarden.features.sequence.twins import Twin
    from lakewarden.lifecycle.ground import Reader, Writer

_WIDER = {"int": "long", "float": "double"}
_OWN = Column(PARTITION, "string", "", "")


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
        self._everything: dict[str, Copied] | None = None

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
    def stamps(self) -> dict[str, CopyStamp]:
        """The newest stamp of each partition, whether or not main has that copy."""
        return {} if self.iceberg is None else self._stamps_in(self.iceberg)

    @cached_property
    def copies(self) -> dict[str, Copied]:
        """What main has, by partition."""
        if self.iceberg is None:
            return {}
        line = set(ancestors(self.iceberg, self.iceberg.metadata.current_snapshot_id))
        return {name: stamped.copied for name, stamped in self.stamps.items() if self._is_there(name, stamped, line)}

    def _is_there(self, name: str, stamped: CopyStamp, line: Collection[int]) -> bool:
        """Whether main, whose history is `line`, has a copy."""
        is_in_line, has_files = stamped.snapshot in line, name in self._files
        if bool(stamped.copied.rows) != has_files or not is_in_line:
            has_files = name in self._on_main  # refused if the files may be among those without a partition
        if bool(stamped.copied.rows) != has_files:  # others may have deleted all
            return False
        return is_in_line or stamped.is_among(self._on_main.get(name, ()), self._rows_like)

    @cached_property
    def _files(self) -> Mapping[str | None, Sequence[LiveFile]]:
        """Main's data files by partition; None for those that do not say which."""
        table = self.iceberg
        return {} if table is None else by_partition(table, self._lake.files.of(table, table.current_snapshot()).bare)

    @cached_property
    def _on_main(self) -> Mapping[str, Sequence[LiveFile]]:
        return {} if self.iceberg is None else of_known_partitions(self.iceberg, self._files)

    def _rows_like(self, copied: Copied) -> Checksums | None:
        """Main's rows of a copy's partition in its columns, as far as these are there; None without its position."""
        columns = self.columns(copied.sums)
        if not {name.lower() for name in copied.compare_by} <= {column.name.lower() for column in columns}:
            return None
        return self.checksums(copied.partition, copied.compare_by, columns)

    def copy_of(self, partition: Partition) -> Copied | None:
        """The copy of a partition that main has; None if there is none, or one of other rows with the same name."""
        found = self.copies.get(partition.name)
        return found if found is not None and found.below == partition.bound else None

    @property
    def lost(self) -> set[str]:
        """Partitions that were copied, and which main no longer has like that: others rolled it back."""
        return self.stamps.keys() - self.copies.keys()

    def how_to_forget(self, partitions: Iterable[str]) -> str:
        """What removes the records of these partitions, if their rows are not to be missed."""
        assert self.iceberg is not None
        keys = list(map(self.key, partitions))
        is_noted = any(not notes_of(snapshot).keys().isdisjoint(keys) for snapshot in self.iceberg.metadata.snapshots)
        first = "expire its earlier snapshots, then " if is_noted else ""
        return f"If the archive is meant to be as it is, {first}run: {unset_statement(self.name, keys)}"

    def everything(self, table: PartitionedTable) -> dict[str, Copied]:
        """What main has, by partition; one without a stamp is described by the range of its rows.

        Earlier versions of Lakewarden left stamps to snapshots alone, which others may have expired.
        """
        if self._everything is None:
            is_own = self.iceberg is not None and not self._other_source(self.iceberg)
            unrecorded = self._on_main.keys() - self.stamps.keys() if is_own else ()
            ranges = {name: self._range(name, table.columns) for name in unrecorded}
            found = {**self.copies, **{name: copy for name, copy in ranges.items() if copy}}
            self._everything = dict(sorted(found.items()))
        return self._everything

    def also_in(self, table: PartitionedTable, twins: Iterable[Twin]) -> set[str]:
        """The archived partitions, also lost ones, that the database still has."""
        stamped, everything = self.stamps, self.everything(table)

        def is_of(partition: Partition) -> bool:
            if partition.name in stamped:
                return stamped[partition.name].copied.below == partition.bound
            found = everything.get(partition.name)
            return found is not None and found.is_within(table.lower_bound(partition), partition.bound)

        return {twin.partition for twin in twins} | {each.name for each in table.partitions if is_of(each)}

    def _range(self, partition: str, position: Sequence[str]) -> Copied | None:
        """The range of a partition's rows, as the bounds of a partition are; None if it has no rows."""
        assert self.iceberg is not None
        named = {name.lower(): name for name in _types(self.iceberg.schema())}
        columns = [named[name.lower()] for name in position]
        rows = (
            tuple(map(int, row))
            for batch in self._rows_of(self.iceberg, partition, columns)
            for row in zip(*(batch[name].to_pylist() for name in columns), strict=True)
        )
        first = last = next(rows, None)
        if first is None or last is None:
            return None
        for row in rows:
            first, last = min(first, row), max(last, row)
        return Copied(partition, first, (*last[:-1], last[-1] + 1), 0, {})

    def files_of(self, partition: str, table: Table) -> dict[str, frozenset[str]]:
        """A partition's data files on main, each with its deletes."""
        files = self._lake.files.of(table, table.current_snapshot()).by_path.values()
        known = of_known_partitions(table, by_partition(table, files))
        return {file.path: file.deletes_identity for file in known.get(partition, ())}

    def unmoved(
        self, partition: str, stamped: CopyStamp | None, files: Mapping[str, frozenset[str]]
    ) -> Callable[[Table], None]:
        """A check for commits: that nobody else copied the partition meanwhile, nor another table's, nor moved main."""

        def check(table: Table) -> None:
            self._check_source(table)
            is_copied = self._stamps_in(table).get(partition) != stamped
            if is_copied or self.files_of(partition, table) != files:
                about = f"{self._source}.{partition}"
                what = f"copied {about} to {self.name}" if is_copied else f"changed the copy of {about} in {self.name}"
                raise StalePlan(
                    f"the plan is stale: another process {what} meanwhile", "Nothing was written. Plan again."
                )

        return check

    def renamed(self, connection: Reading, table: PartitionedTable, there: Collection[str], partition: str = "") -> str:
        """A copy that is not of these partitions, though the table, or one partition, has rows of its range; mostly ''.

        Someone renamed or merged the partition that was copied: its rows would count twice.
        """
        for copy in self.everything(table).values():
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

    def prepare(self, lake: Writer, columns: Sequence[Column]) -> None:
        """Create the Iceberg table, or add columns that the database table got since."""
        if self.iceberg is None:
            lake.tables.catalog(self.name).create_namespace_if_not_exists(self.name.namespace)
            lake.part("create").commits.publish(
                CreateTable(str(self.name), schema=iceberg_schema([*columns, _OWN]), spec=_spec(len(columns) + 1))
            )
            return
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

    def columns(self, names: Iterable[str]) -> list[Column]:
        """Columns of the Iceberg table, to read them."""
        known = {} if self.iceberg is None else _types(self.iceberg.schema())
        return [Column(name, known[name], "", "") for name in names if name in known]

    def checksums(
        self, partition: str, position: Sequence[str], columns: Sequence[Column], branch: str = MAIN
    ) -> Checksums:
        """Read a partition's rows, also those that erasure requests hide, and compute their checksums."""
        table = self._lake.tables.load(self.name)
        known = _types(table.schema())
        held = [column for column in columns if column.name in known]
        if branch not in table.metadata.refs:
            return Checksums(0, {column.name: 0 for column in held})
        return in_lake(self._rows_of(table, partition, [column.name for column in held], branch), position, held)

    def _rows_of(
        self, table: Table, partition: str, columns: Sequence[str], branch: str = MAIN
    ) -> Iterator[pa.RecordBatch]:
        """A partition's rows, also those that erasure requests hide."""
        from pyiceberg.expressions import In
        from pyiceberg.expressions import Reference as Term

        only, reference = In(term=Term(PARTITION), literals={partition}), Reference(self.name, branch)
        version = Resolved(reference, table, find_snapshot(table, reference))
        yield from self._lake.rows.batches(version, columns=columns, raw=True, only=only)[1]

    def _check_source(self, table: Table) -> None:
        """Refuse an archive of another database table: rows of both would be taken for one table's."""
        other = self._other_source(table)
        if other:
            raise UnfitDatabase(
                f"{self.name} is the archive of {other}",
                f"Name another table for {self._source}: archive: {{table: …}}.",
            )

    def _other_source(self, table: Table) -> str:
        """Another database table whose partitions were copied to it; mostly empty."""
        other = next((key for key in stamps_of(table) if not key.startswith(self._prefix)), "")
        return other.removeprefix(SEQUENCE).rpartition(".")[0]

    def _stamps_in(self, table: Table) -> dict[str, CopyStamp]:
        found = stamps_of(table).items()
        return {key.removeprefix(self._prefix): stamped for key, stamped in found if key.startswith(self._prefix)}


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


def _spec(id: int) -> Any:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(PartitionField(id, 1000, IdentityTransform(), PARTITION))
