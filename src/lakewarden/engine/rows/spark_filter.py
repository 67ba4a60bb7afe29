"""A PyIceberg filter as a Spark column: the same meaning, without text in SQL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.records.erasure import HiddenKey

Places = Sequence[tuple[str, int]]
"""Data files with positions."""

_ONE_VALUE: dict[str, Callable[[Any, Any], Any]] = {
    "BoundEqualTo": operator.eq,
    "BoundNotEqualTo": operator.ne,
    "BoundLessThan": operator.lt,
    "BoundLessThanOrEqual": operator.le,
    "BoundGreaterThan": operator.gt,
    "BoundGreaterThanOrEqual": operator.ge,
    "BoundStartsWith": lambda column, value: column.startswith(value),
    "BoundNotStartsWith": lambda column, value: ~column.startswith(value),
}
_FILE, _POSITION, _DELETED = "__lakewarden_file", "__lakewarden_position", "__lakewarden_deleted"
_ABOVE = ("BoundGreaterThan", "BoundGreaterThanOrEqual")
_MANY_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "BoundIn": lambda column, values: column.isin(values),
    "BoundNotIn": lambda column, values: ~column.isin(values),
}
_NO_VALUE: dict[str, Callable[[Any], Any]] = {
    "BoundIsNull": lambda column: column.isNull(),
    "BoundNotNull": lambda column: column.isNotNull(),
    "BoundIsNaN": lambda column: column.isNaN(),
    "BoundNotNaN": lambda column: ~column.isNaN(),
}


def as_column(predicate: BooleanExpression, schema: Schema) -> Column:
    """The filter for DataFrame.where; values are passed as literals of their types."""
    from pyiceberg.expressions.visitors import bind

    return _column(bind(schema, predicate, case_sensitive=True), schema)


def without_hidden(
    session: SparkSession,
    frame: DataFrame,
    keys: Sequence[HiddenKey],
    schema: Schema,
    places: Callable[[Sequence[HiddenKey]], Sequence[tuple[str, int]]],
) -> DataFrame:
    """A table's rows without hidden ones. The values are joined as data, so that no query plan shows them.

    Spark cannot read a key column that the schema no longer has: those rows are left out by `places`, which finds the
    file and position of each.
    """
    from pyspark.sql.functions import col

    former = [key for key in keys if key.values and schema.find_column_name(key.field_id) is None]
    frame = _without_places(session, frame, places(former)) if former else frame
    for key in keys:
        path = schema.find_column_name(key.field_id)
        if path is None:
            continue
        hidden = session.createDataFrame([(value,) for value in key.values], "hidden string")
        kind = "string" if key.kind == "uuid" else key.kind.replace("long", "bigint")
        values = hidden.select(col("hidden").cast(kind).alias("__lakewarden_hidden"))
        same = frame[identifier(path.split("."))] == values["__lakewarden_hidden"]
        frame = frame.join(values, same, "left_anti")
    return frame


def _without_places(session: SparkSession, frame: DataFrame, places: Places) -> DataFrame:
    """A table's rows without those at some positions of its files."""
    from pyspark.sql.functions import col

    if not places:
        return frame
    located = frame.select("*", col("_file").alias(_FILE), col("_pos").alias(_POSITION))
    return located.join(_as_rows(session, places), [_FILE, _POSITION], "left_anti").drop(_FILE, _POSITION)


def deleted_rows(session: SparkSession, name: TableName, places: Places) -> DataFrame:
    """Rows of main at some positions of its files that position deletes mask."""
    from pyspark.sql.functions import broadcast, col

    frame = session.read.table(identifier(name.lake, name.identifier))
    located = frame.select(
        "*", col("_file").alias(_FILE), col("_pos").alias(_POSITION), col("_deleted").alias(_DELETED)
    )
    found = located.where(col(_DELETED)).join(broadcast(_as_rows(session, places)), [_FILE, _POSITION], "left_semi")
    return found.drop(_FILE, _POSITION, _DELETED)


def _as_rows(session: SparkSession, places: Places) -> DataFrame:
    import pyarrow as pa

    paths, positions = [path for path, _ in places], [position for _, position in places]
    return session.createDataFrame(
        pa.table({_FILE: pa.array(paths, pa.string()), _POSITION: pa.array(positions, pa.int64())})
    )


def _column(bound: Any, schema: Schema) -> Column:
    from pyspark.sql.functions import col, lit

    match type(bound).__name__:
        case "AlwaysTrue" | "AlwaysFalse" as constant:
            return lit(constant == "AlwaysTrue")
        case "Not":
            return ~_column(bound.child, schema)
        case "And":
            return _column(bound.left, schema) & _column(bound.right, schema)
        case "Or":
            return _column(bound.left, schema) | _column(bound.right, schema)
    kind, field = type(bound).__name__, bound.term.ref().field
    column = col(identifier(str(schema.find_column_name(field.field_id)).split(".")))
    made: Column
    if kind in _ONE_VALUE:
        made = _ONE_VALUE[kind](column, _literal(bound.literal.value, str(field.field_type)))
        if kind in _ABOVE and str(field.field_type) in ("float", "double"):
            made = made & ~column.isNaN()  # for Spark NaN is greater than every number, for PyIceberg it is not
    elif kind in _MANY_VALUES:
        made = _MANY_VALUES[kind](column, [_literal(each.value, str(field.field_type)) for each in bound.literals])
    else:
        made = _NO_VALUE[kind](column)
    return made


def _literal(value: Any, kind: str) -> Column:
    """Iceberg counts days and microseconds; Spark has date and timestamp literals, without a zone only by a cast."""
    from pyiceberg.utils.datetime import days_to_date, micros_to_timestamp, micros_to_timestamptz
    from pyspark.sql.functions import lit

    if kind == "date":
        return lit(days_to_date(value).isoformat()).cast("date")  # pyspark formats years before 1000 without zeros
    if kind == "timestamp":
        return lit(micros_to_timestamp(value).isoformat(" ")).cast("timestamp_ntz")
    if kind == "timestamptz":
        return lit(micros_to_timestamptz(value))
    return lit(str(value) if kind == "uuid" else value)
