"""Reads the rows of a version: as Arrow batches without a JVM, or as a Spark DataFrame.

All reads of rows go through this module, so that hidden rows are filtered out everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.catalog.tables import Resolved
from lakewarden.engine.kernel import executor_functions
from lakewarden.engine.rows.condition import condition
from lakewarden.engine.rows.hidden_filter import Hiding
from lakewarden.engine.rows.row_positions import KeyRows
from lakewarden.engine.rows.spark_filter import as_column, without_hidden
from lakewarden.engine.spark.session import Spark, send_by_value, translating_spark
from lakewarden.errors import ColumnNotFound, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.files.live_files import Files
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey


class Rows:
    """Reads the rows of one version of a table."""

    def __init__(
        self,
        spark: Callable[[], Spark],
        hidden_in: Callable[[TableName, Table], Sequence[HiddenKey]],
        files: Files,
        storage: Callable[[str], StoredFiles],
    ) -> None:
        self._spark, self._files, self._storage = spark, files, storage
        self.hidden_in = hidden_in
        """The hidden keys of a table; an error if another control database has its requests."""

    def hidden(self, version: Resolved) -> Sequence[HiddenKey]:
        """The hidden keys of a version's table."""
        return self.hidden_in(version.name, version.table)

    def batches(
        self,
        version: Resolved,
        where: str = "",
        columns: Sequence[str] = (),
        limit: int | None = None,
        raw: bool = False,
        only: BooleanExpression | None = None,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Stream the rows as Arrow batches, with bounded memory. `raw` includes hidden rows; `only` is a filter."""
        schema = version_schema(version)
        selected = _known_columns(version, schema, columns)
        predicate = _predicate(version, schema, where, only)
        hiding = Hiding.of([] if raw else self.hidden(version), schema, version.table.metadata)
        if hiding is None:
            return self._through_spark(version, predicate, selected, limit, raw)
        try:
            return _hidden_left_out(version, hiding.within(predicate), selected, hiding, limit)
        except (NotImplementedError, ValueError) as error:
            if "equality delete" not in str(error):
                raise
            return self._through_spark(version, predicate, selected, limit, raw)

    def count(
        self,
        version: Resolved,
        where: str,
        raw: bool,
        known: int | None,
        most_bytes: int,
        only: BooleanExpression | None = None,
    ) -> int | None:
        """The number of rows; None if counting would read more than `most_bytes`.

        `known` is the count from metadata, which is valid if nothing is filtered or hidden.
        """
        from pyiceberg.expressions import AlwaysTrue

        from lakewarden.engine.rows.scan import scan

        schema = version_schema(version)
        hiding = Hiding.of([] if raw else self.hidden(version), schema, version.table.metadata)
        if hiding is None:
            return None
        if known is not None and not where.strip() and only is None and not hiding.hides:
            return known
        predicate = hiding.within(_predicate(version, schema, where, only))
        try:
            with translating(f"table {version.name}"):
                tasks = list(scan(version, schema, predicate).plan_files())
            if not hiding.many and all(task.residual == AlwaysTrue() and not task.delete_files for task in tasks):
                return sum(task.file.record_count for task in tasks)
            if sum(task.file.file_size_in_bytes for task in tasks) > most_bytes:
                return None
            column = (schema.fields[0].name,)
            _, batches = _hidden_left_out(version, predicate, column, hiding, None)
            return sum(int(batch.num_rows) for batch in batches)
        except (NotImplementedError, ValueError) as error:
            if "equality delete" not in str(error):
                raise
            return None

    def arrow_filter(self, version: Resolved, where: str) -> tuple[Any, list[str]]:
        """A filter as an Arrow expression over the names of a version's columns, and the columns that it uses."""
        from pyiceberg.expressions.visitors import bind, extract_field_ids
        from pyiceberg.io.pyarrow import expression_to_pyarrow

        if not where.strip():
            return None, []
        schema = version_schema(version)
        bound = bind(schema, _predicate(version, schema, where), case_sensitive=True)
        used = [schema.find_column_name(field_id) or "" for field_id in extract_field_ids(bound)]
        return expression_to_pyarrow(bound, schema), sorted({name.split(".")[0] for name in used})

    def files_of(self, version: Resolved, where: str) -> set[str]:
        """The data files that may hold rows of a filter, by partition and bounds."""
        from lakewarden.engine.rows.scan import scan

        schema = version_schema(version)
        predicate = _predicate(version, schema, where)
        with translating(f"table {version.name}"):
            return {task.file.file_path for task in scan(version, schema, predicate).plan_files()}

    def dataframe(self, version: Resolved, raw: bool = False, only: BooleanExpression | None = None) -> DataFrame:
        """The version as a Spark DataFrame; `raw` includes hidden rows, `only` is a filter."""
        name = version.name
        keys = [] if raw else self.hidden(version)
        with translating_spark():
            session = self._spark().session()
            schema = version_schema(version)
            if schema.schema_id == version.snapshot.schema_id:
                reader = session.read.option("versionAsOf", str(version.snapshot.snapshot_id))
            else:  # columns changed since the branch's last commit: Spark reads them by branch name only
                reader = session.read.option("branch", version.reference.ref or "main")
            frame = reader.table(identifier(name.lake, name.identifier))
            frame = frame if only is None else frame.where(as_column(only, schema))
            return self.visible(session, frame, keys, version, [version.snapshot.snapshot_id], schema)

    def visible(
        self,
        session: SparkSession,
        frame: DataFrame,
        keys: Sequence[HiddenKey],
        version: Resolved,
        snapshots: Sequence[int],
        schema: Schema,
    ) -> DataFrame:
        """Rows without hidden ones; they come from files of these snapshots, read with this schema."""

        def places(former: Sequence[HiddenKey]) -> list[tuple[str, int]]:
            rows = KeyRows(former, self._files, self._storage(version.name.lake))
            return rows.places(version.table, *snapshots)

        return without_hidden(session, frame, keys, schema, places)

    def _through_spark(
        self,
        version: Resolved,
        predicate: BooleanExpression,
        columns: Sequence[str],
        limit: int | None,
        raw: bool = False,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """For versions with equality deletes, which PyIceberg does not read; streamed partition by partition."""
        frame = self.dataframe(version, raw)
        with translating_spark():
            frame = frame.where(as_column(predicate, version_schema(version)))
            frame = frame.select(*[identifier(*column.split(".")) for column in columns]) if columns else frame
            frame = frame.limit(limit) if limit is not None else frame
            schema = frame.limit(0).toArrow().schema
        return schema, _spark_batches(frame)


def _hidden_left_out(
    version: Resolved, predicate: BooleanExpression, selected: tuple[str, ...], hiding: Hiding, limit: int | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Rows of a scan; if very many values are hidden, each row is looked up before the limit applies."""
    if not hiding.many:
        return _scanned(version, predicate, selected, limit)
    wanted, _ = _scanned(version, predicate, selected, 0)
    _, batches = _scanned(version, predicate, hiding.needs(selected), None, hiding.schema)
    return wanted, hiding.left_out(batches, wanted, limit)


def _scanned(
    version: Resolved,
    predicate: BooleanExpression,
    selected: tuple[str, ...],
    limit: int | None,
    schema: Schema | None = None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    from lakewarden.engine.rows.scan import scan

    found = scan(version, schema or version_schema(version), predicate, selected, limit)
    with translating(f"table {version.name}"):
        reader = found.to_arrow_batch_reader()
    return reader.schema, _translated_batches(reader, f"table {version.name}")


def _spark_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Arrow batches as the executors have them: converted to Python values, timestamps would lose their zone."""
    import pyarrow as pa

    send_by_value(executor_functions)
    with translating_spark():
        for row in frame.mapInArrow(executor_functions.as_messages, "message binary").toLocalIterator():
            with pa.ipc.open_stream(row["message"]) as batches:
                yield from batches


def version_schema(version: Resolved) -> Schema:
    """The schema to read a version with, as Spark does: a branch has the table's current one, others their own."""
    ref = version.table.metadata.refs.get(version.reference.ref or "main")
    if ref is not None and str(ref.snapshot_ref_type) == "branch":
        return version.table.schema()
    schema_id = version.snapshot.schema_id
    found = next((s for s in version.table.metadata.schemas if s.schema_id == schema_id), None)
    return found or version.table.schema()


def _known_columns(version: Resolved, schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    known = schema.column_names
    for column in columns:
        if column not in known:
            hint = did_you_mean(column, known, f"It has {', '.join(f.name for f in schema.fields)}.")
            raise ColumnNotFound(f"{version.reference} has no column {column}", hint)
    return tuple(columns)


def _predicate(
    version: Resolved, schema: Schema, where: str, only: BooleanExpression | None = None
) -> BooleanExpression:
    from pyiceberg.expressions import AlwaysTrue, And

    older = version.table.metadata.schemas
    given = condition(where, schema, str(version.reference), older) if where.strip() else AlwaysTrue()
    return given if only is None else And(given, only)


def _translated_batches(reader: pa.RecordBatchReader, about: str) -> Iterator[pa.RecordBatch]:
    with translating(about):
        yield from reader
