"""Runs a statement on Spark over tables that are pinned to a version and read without hidden rows."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import first_line
from lakewarden.engine.base.quoting import identifier, literal
from lakewarden.engine.files.manifests import holds_data, listed_files, manifests_of
from lakewarden.engine.rows.read import version_schema
from lakewarden.engine.spark.session import Spark, translating_spark, without_values
from lakewarden.engine.sql.statement import BEGIN, END, RANGE, Statement
from lakewarden.errors import BadValue

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.rows.read import Rows
    from lakewarden.engine.sql.asked import Asked, Read

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = ("bigint", "timestamp", "timestamp", "string")  # number, begin, end and digest
_FILES_PER_RANGE = 1.25
_EXACT = {  # by default, times are cut to milliseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_FLAGS = 60  # bits of a long that say which columns are null


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

    @property
    def has_zone(self) -> bool:
        """Whether insert times are moments; if not, they are taken as UTC."""
        return str(version_schema(self.version).find_type(self.insert_time)) == "timestamptz"


@dataclass(frozen=True)
class Cut:
    """The ranges of a source to run a statement over: those with a digest, by number."""

    source: Source
    ranges: Ranges
    digests: Mapping[int, str]

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        return self.ranges.of(min(self.digests))[0], self.ranges.of(max(self.digests))[1]


@dataclass(frozen=True)
class RangeColumns:
    """The columns that the rows of a range get besides those of the statement."""

    begin: str
    end: str
    digest: str
    constants: Mapping[str, str | datetime]


@dataclass(frozen=True)
class Selected:
    """The rows of a version that a caller's statement reads."""

    version: Resolved
    only: BooleanExpression | None = None
    columns: tuple[str, ...] = ()
    """All if empty."""
    left_out: str = ""
    """What is not read, as a sentence."""


class Queries:
    """Runs statements over pinned versions."""

    def __init__(self, spark: Callable[[], Spark], rows: Rows) -> None:
        self._spark, self._rows = spark, rows

    def output(self, statement: Statement, versions: Mapping[str, Resolved]) -> pa.Schema:
        """The Arrow schema of a statement's rows."""
        with translating_spark():
            session = self._spark().session()
            with self._views(session, versions) as view:
                return session.sql(statement.over(view), {BEGIN: _EPOCH, END: _EPOCH}).limit(0).toArrow().schema

    def rows(self, asked: Asked, reads: Mapping[Read, Selected], given: Mapping[Read | str, pa.Table]) -> pa.Table:
        """The rows of a caller's statement, over versions and over rows that are given."""
        from pyspark.errors import AnalysisException, ParseException

        names: dict[Read | str, str] = {}
        with self._without_hidden_values(one.version for one in reads.values()), translating_spark():
            session = self._spark().session()
            try:
                for what, frame in self._frames(session, reads, given):
                    name = f"lakewarden_{uuid.uuid4().hex}"
                    frame.createOrReplaceTempView(name)
                    names[what] = name
                return session.sql(asked.over(names)).toArrow()
            except (AnalysisException, ParseException) as error:
                raise BadValue(
                    f"the SQL cannot be run: {first_line(error)}", "It runs on Spark; see its SQL."
                ) from None
            finally:
                for name in names.values():
                    session.catalog.dropTempView(name)

    def _frames(
        self, session: SparkSession, reads: Mapping[Read, Selected], given: Mapping[Read | str, pa.Table]
    ) -> Iterator[tuple[Read | str, DataFrame]]:
        for read, selected in reads.items():
            frame = self._rows.dataframe(selected.version, only=selected.only)
            columns = [identifier(column) for column in selected.columns]
            yield read, frame.select(*columns) if columns else frame
        for what, table in given.items():
            yield what, session.createDataFrame(table)

    def digests(self, source: Source, ranges: Ranges, columns: Sequence[str]) -> dict[int, str]:
        """For each range with rows, a digest of their number and content, whatever their order."""
        from pyspark.sql import functions as F

        with translating_spark():
            frame = self._source(source)
            begin, end = (_moment(source, at) for at in (ranges.begin, ranges.end))
            at = F.col(identifier(source.insert_time))
            rows = frame.where((at >= begin) & (at < end))
            hashed = F.xxhash64(*_hashed(frame, columns))
            found = rows.groupBy(_number(source, ranges).alias(RANGE)).agg(
                F.count(F.lit(1)).alias("rows"),
                F.sum(hashed.bitwiseAND(F.lit(0xFFFFFFFF))).alias("low"),  # in halves, since a sum may not overflow
                F.sum(F.shiftrightunsigned(hashed, 32)).alias("high"),
            )
            return {int(row[RANGE]): _digest(f"{row['rows']}:{row['low']}:{row['high']}") for row in found.collect()}

    @contextmanager
    def rows_of(
        self, statement: Statement, versions: Mapping[str, Resolved], cut: Cut, columns: RangeColumns
    ) -> Iterator[Callable[[SparkSession], DataFrame]]:
        """What reads the statement's rows of some ranges, each with the columns of its range, one range after another.

        They are brought together by the number of their range, unless the source's files have them together already.
        """
        from pyspark.sql import functions as F

        views = ExitStack()
        at_once = statement.ranges_at_once(cut.source.spelled, cut.source.insert_time)
        is_together = at_once and not statement.is_grouped and _is_together(cut)

        def frame(session: SparkSession) -> DataFrame:
            view = views.enter_context(self._views(session, versions, cut, numbered=at_once))
            if at_once:
                found = session.sql(statement.by_range(view), _arguments(cut.source, *cut.bounds))
            else:
                found = _range_by_range(session, statement.over(view), cut)
            rows = [(number, *cut.ranges.of(number), digest) for number, digest in cut.digests.items()]
            names = (RANGE, columns.begin, columns.end, columns.digest)
            kinds = (f"{identifier(name)} {kind}" for name, kind in zip(names, _KINDS, strict=True))
            known = F.broadcast(session.createDataFrame(rows, ", ".join(kinds)))
            found = (found if is_together else found.repartition(RANGE)).join(known, RANGE)
            found = found.withColumns({name: F.lit(value) for name, value in columns.constants.items()})
            return found.sortWithinPartitions(RANGE).drop(RANGE)  # last, since Spark drops a sort before a join

        with self._without_hidden_values(versions.values()), views:
            yield frame

    def _without_hidden_values(self, versions: Iterable[Resolved]) -> AbstractContextManager[None]:
        return without_values(any(self._rows.hidden(version) for version in versions))

    def _source(self, source: Source) -> DataFrame:
        from pyspark.sql import functions as F

        frame = self._rows.dataframe(source.version)
        if source.instance is not None:
            column, value = source.instance
            frame = frame.where(F.col(identifier(column)).cast("string") == F.lit(value))
        return frame

    @contextmanager
    def _views(
        self,
        session: SparkSession,
        versions: Mapping[str, Resolved],
        cut: Cut | None = None,
        numbered: bool = False,
    ) -> Iterator[Callable[[str], str]]:
        """Temporary views of pinned versions, by the names that a statement uses; the source's with range numbers."""
        names = {spelled: f"lakewarden_{uuid.uuid4().hex}" for spelled in versions}
        for spelled, version in versions.items():
            if cut is not None and spelled == cut.source.spelled:
                frame = self._source(cut.source)
                frame = frame.withColumn(RANGE, _number(cut.source, cut.ranges)) if numbered else frame
            else:
                frame = self._rows.dataframe(version)
            frame.createOrReplaceTempView(names[spelled])
        try:
            yield names.__getitem__
        finally:
            for name in names.values():
                session.catalog.dropTempView(name)


def _is_together(cut: Cut) -> bool:
    """Whether the rows of most ranges lie in one file each: then each task writes what it reads, and no row moves."""
    version = cut.source.version
    field_id = version_schema(version).find_field(cut.source.insert_time).field_id
    begin, delta = cut.ranges.micros
    first, last = min(cut.digests), max(cut.digests)
    parts, most = 0, len(cut.digests) * _FILES_PER_RANGE
    for manifest in manifests_of(version.table.io, version.snapshot):
        for file in listed_files(version.table.io, manifest) if holds_data(manifest) else ():
            low, high = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
            if low is None or high is None:
                return False
            low_number, high_number = (
                (int.from_bytes(at, "little", signed=True) - begin) // delta for at in (low, high)
            )
            parts += max(0, min(high_number, last) - max(low_number, first) + 1)
            if parts > most:
                return False
    return True


def _range_by_range(session: SparkSession, text: str, cut: Cut) -> DataFrame:
    """A query for each range, all in one job."""
    from pyspark.sql import functions as F

    parts = [
        session.sql(text, _arguments(cut.source, *cut.ranges.of(number))).withColumn(
            RANGE, F.lit(number).cast("bigint")
        )
        for number in cut.digests
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def _arguments(source: Source, begin: datetime, end: datetime) -> dict[str, Any]:
    return {BEGIN: _moment(source, begin), END: _moment(source, end)}


def _moment(source: Source, at: datetime) -> Column:
    """A time of the type that insert times have: only then does Iceberg skip files by their bounds."""
    from pyspark.sql import functions as F

    if source.has_zone:
        return F.lit(at)
    return F.expr(f"TIMESTAMP_NTZ {literal(at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' '))}")


def _number(source: Source, ranges: Ranges) -> Column:
    from pyspark.sql import functions as F

    begin, delta = ranges.micros
    micros = F.unix_micros(F.col(identifier(source.insert_time)).cast("timestamp"))  # in UTC, as the session is
    return F.call_function("div", micros - F.lit(begin), F.lit(delta))


def _hashed(frame: DataFrame, columns: Sequence[str]) -> list[Column]:
    """What a row's hash is made of. Hashes skip nulls, so which columns are null counts too."""
    from pyspark.sql import functions as F

    found, flags = [], []
    for place, name in enumerate(columns):
        column = F.col(identifier(name))
        is_nested = frame.schema[name].dataType.typeName() in ("map", "array", "struct", "variant")
        found.append(F.to_json(F.struct(column), _EXACT) if is_nested else column)
        flags.append(F.when(column.isNull(), F.lit(1 << place % _FLAGS)).otherwise(F.lit(0)))
    parts = (flags[start : start + _FLAGS] for start in range(0, len(flags), _FLAGS))
    return [*found, *(reduce(lambda one, other: one + other, part) for part in parts)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
