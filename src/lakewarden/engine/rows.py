"""Rows of a table's version: as Arrow batches without a JVM, or as a Spark DataFrame.

The one place that reads rows, so that what must be left out of reads is left out here, for everyone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine import tasks
from lakewarden.engine.faults import first_line, told
from lakewarden.engine.quoting import identifier
from lakewarden.engine.spark import Spark, send_by_value, spark_told
from lakewarden.engine.spark_filter import as_column
from lakewarden.engine.tables import Resolved
from lakewarden.errors import BadFilter, ColumnNotFound, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame


class Rows:
    """Reads the rows of one version of one table."""

    def __init__(self, spark: Callable[[], Spark]) -> None:
        self._spark = spark

    def batches(
        self, version: Resolved, where: str = "", columns: Sequence[str] = (), limit: int | None = None
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Stream the rows as Arrow batches; memory stays bounded whatever the table's size."""
        schema = version_schema(version)
        selected = _known_columns(version, schema, columns)
        predicate = _predicate(version, schema, where)
        scan = version.table.scan(
            row_filter=predicate,
            selected_fields=selected or ("*",),
            snapshot_id=version.snapshot.snapshot_id,
            limit=limit,
        )
        try:
            with told(f"table {version.name}"):
                reader = scan.to_arrow_batch_reader()
        except (NotImplementedError, ValueError) as error:
            if "equality delete" not in str(error):
                raise
            return self._through_spark(version, predicate, selected, limit)
        return reader.schema, _told_batches(reader, f"table {version.name}")

    def files_of(self, version: Resolved, where: str) -> set[str]:
        """The data files that may hold rows of a filter, by their partitions and bounds."""
        predicate = _predicate(version, version_schema(version), where)
        scan = version.table.scan(row_filter=predicate, snapshot_id=version.snapshot.snapshot_id)
        with told(f"table {version.name}"):
            return {task.file.file_path for task in scan.plan_files()}

    def dataframe(self, version: Resolved) -> DataFrame:
        """The version as a Spark DataFrame."""
        name = version.name
        with spark_told():
            reader = self._spark().session().read.option("versionAsOf", str(version.snapshot.snapshot_id))
            return reader.table(identifier(name.lake, name.identifier))

    def _through_spark(
        self, version: Resolved, predicate: BooleanExpression, columns: Sequence[str], limit: int | None
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """For versions with equality deletes, which PyIceberg does not read; streamed partition by partition."""
        frame = self.dataframe(version)
        with spark_told():
            frame = frame.where(as_column(predicate, version_schema(version)))
            frame = frame.select(*[identifier(*column.split(".")) for column in columns]) if columns else frame
            frame = frame.limit(limit) if limit is not None else frame
            schema = frame.limit(0).toArrow().schema
        return schema, _spark_batches(frame)


def _spark_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Arrow batches as they are on the executors: no value passes through Python, where times lose their zone."""
    import pyarrow as pa

    send_by_value(tasks)
    with spark_told():
        for row in frame.mapInArrow(tasks.as_messages, "message binary").toLocalIterator():
            with pa.ipc.open_stream(row["message"]) as batches:
                yield from batches


def version_schema(version: Resolved) -> Schema:
    """The schema the version was written with, which need not be the table's present one."""
    schema_id = version.snapshot.schema_id
    found = next((s for s in version.table.metadata.schemas if s.schema_id == schema_id), None)
    return found or version.table.schema()


def _known_columns(version: Resolved, schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    for column in columns:
        _check_column(version, schema, column)
    return tuple(columns)


def _check_column(version: Resolved, schema: Schema, column: str) -> None:
    known = schema.column_names
    if column not in known:
        hint = did_you_mean(column, known, f"It has {', '.join(f.name for f in schema.fields)}.")
        raise ColumnNotFound(f"{version.reference} has no column {column}", hint)


def _predicate(version: Resolved, schema: Schema, where: str) -> BooleanExpression:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.parser import boolean_expression
    from pyiceberg.expressions.visitors import bind

    if not where.strip():
        return AlwaysTrue()
    hint = "Comparisons, IN, LIKE 'x%', IS NULL, AND, OR and NOT can be used, as in: amount > 10 AND city = 'Bern'."
    try:
        grammar = boolean_expression.copy().parse_with_tabs()  # else a tab in a value is read as spaces
        predicate: BooleanExpression = grammar.parse_string(where, parse_all=True)[0]
    except Exception as error:  # noqa: BLE001 - the grammar's own, and what its actions raise on odd literals
        rest = where[getattr(error, "loc", 0) :].strip()  # what the grammar says of it would fill a page
        raise BadFilter(f"--where cannot be read from {rest[:60] or 'its end'!r} on", hint) from None
    try:
        bind(schema, predicate, case_sensitive=True)
    except ValueError as error:
        said = first_line(error)
        unknown = re.search(r"find field with name (.+), case_sensitive", said)
        near = did_you_mean(unknown[1], schema.column_names, hint) if unknown else hint
        said = f"there is no column {unknown[1]}" if unknown else said
        raise BadFilter(f"--where does not fit {version.reference}: {said}", near) from None
    except (TypeError, NotImplementedError) as error:
        raise BadFilter(f"--where does not fit {version.reference}: {first_line(error)}", hint) from None
    return predicate


def _told_batches(reader: pa.RecordBatchReader, about: str) -> Iterator[pa.RecordBatch]:
    with told(about):
        yield from reader
