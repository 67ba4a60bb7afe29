"""Runs a statement on Spark over tables that are pinned to a version and read without hidden rows."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.spark.session import Spark, translating_spark
from lakewarden.engine.sql.statement import BEGIN, END, INSERT_TIME, Statement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.rows.read import Rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = "lw_range"


@dataclass(frozen=True)
class Ranges:
    """Ranges of equal length that follow each other, by number."""

    begin: datetime
    delta: timedelta
    count: int

    def of(self, number: int) -> tuple[datetime, datetime]:
        return self.begin + number * self.delta, self.begin + (number + 1) * self.delta

    @property
    def end(self) -> datetime:
        return self.begin + self.count * self.delta

    @property
    def micros(self) -> tuple[int, int]:
        return (self.begin - _EPOCH) // timedelta(microseconds=1), self.delta // timedelta(microseconds=1)


@dataclass(frozen=True)
class Source:
    """The rows that ranges are cut from: a pinned version, its insert time, and one instance of it or all."""

    version: Resolved
    spelled: str
    """The table's name in the statement."""
    insert_time: str
    instance: tuple[str, str] | None = None
    """A column and its value as text; None for all rows."""


class Queries:
    """Runs statements over pinned versions."""

    def __init__(self, spark: Callable[[], Spark], rows: Rows) -> None:
        self._spark, self._rows = spark, rows

    def output(self, statement: Statement, versions: Mapping[str, Resolved]) -> pa.Schema:
        """The Arrow schema of a statement's rows."""
        with translating_spark():
            session = self._spark().session()
            with self._views(session, versions) as view:
                now = datetime(2000, 1, 1, tzinfo=UTC)
                return session.sql(statement.over(view), {BEGIN: now, END: now}).limit(0).toArrow().schema

    def digests(self, source: Source, ranges: Ranges, columns: Sequence[str]) -> dict[int, tuple[int, str]]:
        """For each range with rows, how many there are and a digest of their content, whatever their order."""
        from pyspark.sql import functions as F

        with translating_spark():
            rows = self._within(self._source(source), source, ranges)
            by_name = {name: F.col(identifier(name)) for name in columns}
            hashed = [
                F.to_json(F.struct(column)) if _is_nested(rows, name) else column for name, column in by_name.items()
            ]
            first, second = F.xxhash64(*hashed), F.xxhash64(F.lit("second"), *hashed)
            found = rows.groupBy(_number(source.insert_time, ranges)).agg(
                F.count(F.lit(1)).alias("rows"),
                F.sum(first.cast("decimal(38,0)")).cast("string").alias("one"),
                F.sum(second.cast("decimal(38,0)")).cast("string").alias("other"),
            )
            return {
                int(row[_NUMBER]): (int(row["rows"]), _digest(f"{row['rows']}:{row['one']}:{row['other']}"))
                for row in found.collect()
            }

    @contextmanager
    def rows_of(
        self,
        statement: Statement,
        source: Source,
        versions: Mapping[str, Resolved],
        ranges: Ranges,
        wanted: Mapping[int, str],
        names: Mapping[str, Any],
    ) -> Iterator[Callable[[SparkSession], DataFrame]]:
        """What writes the rows of some ranges, each with its bounds, its digest in `wanted`, and constants in `names`.

        `names` are the columns for begin, end and digest, and constants for others.
        """
        from pyspark.sql import functions as F

        views = ExitStack()

        def frame(session: SparkSession) -> DataFrame:
            view = views.enter_context(self._views(session, versions, source))
            text = statement.in_one_pass(source.spelled, source.insert_time, view)
            if text is not None:
                bounds = {BEGIN: ranges.of(min(wanted))[0], END: ranges.of(max(wanted))[1]}
                found = session.sql(text, bounds).withColumn(_NUMBER, _number(INSERT_TIME, ranges))
            else:
                parts = [
                    session.sql(statement.over(view), dict(zip((BEGIN, END), ranges.of(number), strict=True)))
                    .withColumn(_NUMBER, F.lit(number).cast("bigint"))
                    for number in wanted
                ]  # fmt: skip
                found = parts[0]
                for part in parts[1:]:
                    found = found.unionByName(part)
            known = session.createDataFrame(list(wanted.items()), f"{_NUMBER} bigint, {names['digest']} string")
            found = found.join(F.broadcast(known), _NUMBER)
            begin, delta = ranges.micros
            at = F.lit(begin) + F.col(_NUMBER) * F.lit(delta)
            found = found.withColumn(names["begin"], F.timestamp_micros(at))
            found = found.withColumn(names["end"], F.timestamp_micros(at + F.lit(delta)))
            for column, value in names["constants"].items():
                found = found.withColumn(column, F.lit(value))
            return found.drop(_NUMBER, INSERT_TIME)

        with views:
            yield frame

    def _source(self, source: Source) -> DataFrame:
        from pyspark.sql import functions as F

        frame = self._rows.dataframe(source.version)
        if source.instance is not None:
            column, value = source.instance
            frame = frame.where(F.col(identifier(column)).cast("string") == F.lit(value))
        return frame

    def _within(self, frame: DataFrame, source: Source, ranges: Ranges) -> DataFrame:
        from pyspark.sql import functions as F

        at = F.col(identifier(source.insert_time))
        return frame.where((at >= F.lit(ranges.begin)) & (at < F.lit(ranges.end)))

    @contextmanager
    def _views(
        self, session: SparkSession, versions: Mapping[str, Resolved], source: Source | None = None
    ) -> Iterator[Callable[[str], str]]:
        """Temporary views of pinned versions, by the names that a statement uses."""
        names = {spelled: f"lakewarden_{uuid.uuid4().hex}" for spelled in versions}
        for spelled, version in versions.items():
            is_source = source is not None and spelled == source.spelled
            frame = self._source(source) if source is not None and is_source else self._rows.dataframe(version)
            frame.createOrReplaceTempView(names[spelled])
        try:
            yield names.__getitem__
        finally:
            for name in names.values():
                session.catalog.dropTempView(name)


def _number(column: str, ranges: Ranges) -> Column:
    from pyspark.sql import functions as F

    begin, delta = ranges.micros
    return F.expr(f"(unix_micros({identifier(column)}) - {begin}L) div {delta}L").alias(_NUMBER)


def _is_nested(frame: DataFrame, name: str) -> bool:
    return frame.schema[name].dataType.typeName() in ("map", "array", "struct", "variant")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
