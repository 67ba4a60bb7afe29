"""Checks rows before they are published, on Spark: what differs from what was expected, keys, and nulls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.spark.session import translating_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TIMES = "lw_times"
_NESTED = ("map", "array", "struct", "variant")


def differing(expected: DataFrame, found: DataFrame, ignored: Collection[str]) -> tuple[int, int]:
    """How many expected rows were not found, and how many found rows were not expected, whatever their order."""
    with translating_spark():
        one, other = (_comparable(frame, expected, ignored) for frame in (expected, found))
        return one.exceptAll(other).count(), other.exceptAll(one).count()


def duplicated(new: DataFrame, others: DataFrame | None, keys: Sequence[str]) -> tuple[int, int]:
    """How many keys occur twice or more in new rows, and how many of their keys other rows have too.

    A key with a NULL is not equal to another.
    """
    from pyspark.sql import functions as F

    columns = [identifier(key) for key in keys]
    with translating_spark():
        complete = new.select(*columns)
        for column in columns:
            complete = complete.where(F.col(column).isNotNull())
        counted = complete.groupBy(*columns).agg(F.count(F.lit(1)).alias(_TIMES))
        twice = counted.where(F.col(_TIMES) > 1).count()
        return twice, complete.intersect(others.select(*columns)).count() if others is not None else 0


def null_ratios(rows: DataFrame, columns: Sequence[str]) -> Mapping[str, float]:
    """The share of NULLs in columns; 0 if there are no rows."""
    from pyspark.sql import functions as F

    with translating_spark():
        found = rows.agg(*(F.avg(F.col(identifier(name)).isNull().cast("int")).alias(name) for name in columns))
        return {name: float(value or 0) for name, value in found.collect()[0].asDict().items()}


def _comparable(frame: DataFrame, like: DataFrame, ignored: Collection[str]) -> DataFrame:
    """The columns in the order of another frame; nested ones as text, since sets of rows cannot hold maps."""
    from pyspark.sql import functions as F

    without = {name.lower() for name in ignored}

    def column(name: str) -> Column:
        plain = F.col(identifier(name))
        is_nested = like.schema[name].dataType.typeName() in _NESTED
        return (F.to_json(F.struct(plain)) if is_nested else plain).alias(name)

    return frame.select(*(column(name) for name in like.columns if name.lower() not in without))
