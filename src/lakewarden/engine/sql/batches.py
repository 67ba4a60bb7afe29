"""Divides a backfill's source into ranges, and gives the rows that its SQL makes of them, on Spark.

Planning reads the checkpoint columns only: all tuples if there are few, otherwise a sample that gives the bounds and a
pass that counts. Rows with equal tuples are never in different ranges.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.engine.rows.read import version_schema
from lakewarden.engine.spark.session import Spark, translating_spark, without_values
from lakewarden.engine.sql.insertion import RANGE, Insertion
from lakewarden.engine.sql.range_binding import BATCH_SIZE, CHECKPOINT, RANGED
from lakewarden.engine.sql.sorted_column import HERE, Range, SortedColumn, is_sortable
from lakewarden.engine.sql.tuples import Tuple, TupleColumns, order
from lakewarden.errors import BadValue

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.comparison.new_rows import NewRows, Since
    from lakewarden.engine.rows.read import Rows
    from lakewarden.records.erasure import HiddenKey

FEW = 200_000
"""Up to so many rows are planned exactly by Spark; of more, so many are sampled."""
COUNTED = 32 << 20
"""Up to so many bytes are read to count rows outside of a run."""
_SEED = 17


@dataclass(frozen=True)
class NoVersion:
    """A table that had no version yet when it was pinned: it is read without rows, whatever it has got since."""

    name: TableName
    schema: Schema


@dataclass(frozen=True)
class Reading:
    """What a backfill reads: pinned versions, by the names that its SQL has for them."""

    insertion: Insertion
    source: str
    columns: TupleColumns
    versions: Mapping[str, Resolved | NoVersion]
    since: Resolved | None = None
    """Only the rows that the source has got since this version."""
    hidden_before: tuple[HiddenKey, ...] = ()
    """What was hidden when that version was read: rows that are no longer hidden are new."""
    initial: Tuple | None = None
    """Rows up to this tuple are not read."""
    without: tuple[Tuple, ...] = ()
    """Rows with these tuples are not read."""

    @property
    def pinned(self) -> Resolved | NoVersion:
        return self.versions[self.source]

    @property
    def pins(self) -> list[Resolved]:
        """All versions that it reads."""
        versions = [version for version in self.versions.values() if not isinstance(version, NoVersion)]
        return [*versions, *([self.since] if self.since else [])]

    @property
    def new(self) -> Since | None:
        """Which rows of the source are read, if not all: those that differ in what the SQL reads."""
        from lakewarden.engine.comparison.new_rows import Since

        if self.since is None or isinstance(self.pinned, NoVersion):
            return None
        known = [field.name for field in version_schema(self.pinned).fields]
        read = {*self.insertion.columns_read(known), *self.columns.names}
        columns = tuple(name for name in known if name in read)
        return Since(self.since, self.pinned, columns, self.hidden_before)

    @property
    def rows(self) -> int:
        """How many rows the source has, by its metadata."""
        return self._total("records")

    @property
    def bytes(self) -> int:
        return self._total("files-size")

    def _total(self, what: str) -> int:
        snapshot = None if isinstance(self.pinned, NoVersion) else self.pinned.snapshot
        return int(notes_of(snapshot).get(f"total-{what}", 0))


class Batches:
    """Plans and reads ranges of pinned sources."""

    def __init__(self, spark: Callable[[], Spark], rows: Rows, new_rows: NewRows) -> None:
        self._spark, self._rows, self._new_rows = spark, rows, new_rows

    def check(self, reading: Reading, target: Sequence[str]) -> None:
        """Have Spark refuse SQL that does not fit its tables, before a row moves."""
        with translating_spark():
            session = self._spark().session()
            with self._views(session, reading, None) as view:
                chosen = reading.insertion.columns
                columns = f"({', '.join(identifier(column) for column in chosen)}) " if chosen else ""
                how = "BY NAME " if reading.insertion.is_by_name else ""
                query = reading.insertion.query(view, _values(reading.columns, reading.initial, 1))
                explained = session.sql(f"EXPLAIN INSERT INTO {identifier(target)} {columns}{how}{query}").collect()
        told = "\n".join(str(row[0]) for row in explained)
        if told.startswith("Error occurred during query planning"):
            problem = " ".join(told.partition(":")[2].split())[:300]
            raise BadValue(f"Spark refuses the SQL: {problem}", "Correct it, or the table.")

    def ranges(self, reading: Reading, after: Tuple | None, size: int, upto: Tuple | None = None) -> list[Range]:
        """The ranges of the rows after a tuple, and up to another, each of about so many rows, in their order."""
        if isinstance(reading.pinned, NoVersion):
            return []
        if upto is None and reading.since is None and is_sortable(reading.columns) and reading.rows <= HERE:
            here = self._sorted_here(reading, after)
            if here is not None:
                return here.ranges(after, size)
        with translating_spark():
            frame = self._source(reading).where(reading.columns.within(after, upto))
            is_exact = reading.since is not None or upto is not None
            fraction = 1.0 if is_exact else min(1.0, FEW / max(reading.rows, 1))
            return _ranges(frame, reading.columns, after, size, fraction)

    def count(self, reading: Reading) -> int | None:
        """How many rows of the source are read; None if that takes reading too much of it here."""
        if isinstance(reading.pinned, NoVersion):
            return 0
        if reading.initial is None:
            if reading.new is None:
                return self._rows.count(reading.pinned, "", raw=False, known=None, most_bytes=COUNTED)
            return self._new_rows.count(reading.new, COUNTED)
        if reading.new is None:
            if reading.bytes > COUNTED:
                return None
            _, batches = self._rows.batches(reading.pinned, columns=reading.columns.names)
        else:
            found = self._new_rows.here(reading.new, COUNTED)
            if found is None:
                return None
            batches = iter(found.batches)
        after = order(reading.initial)
        return sum(order(values) > after for batch in batches for values in _values_of(batch, reading.columns))

    def removed(self, reading: Reading) -> int | None:
        """How many rows of the version that was read before the source no longer has; None as for `count`."""
        if reading.new is None or self._new_rows.appended(reading.new) is not None:
            return 0
        found = self._new_rows.here(reading.new, COUNTED)
        return None if found is None else found.removed

    def tuple_after(self, reading: Reading, rows: int, total: int) -> Tuple | None:
        """The tuple of the last of so many rows; None if it is in the midst of equal ones, or the total is another."""
        with translating_spark():
            names = [identifier(name) for name in reading.columns.names]
            frame = self._source(reading).select(*names)
            if frame.count() != total:
                return None
            last = frame.orderBy(*names).limit(rows).orderBy(*names, ascending=False).limit(1)
            found = _tuples(last, reading.columns)[0][0]
            is_end = frame.where(reading.columns.within(None, found)).count() == rows
        return found if is_end else None

    def _sorted_here(self, reading: Reading, after: Tuple | None) -> SortedColumn | None:
        """The values of the one checkpoint column, read without Spark; None if only Spark can read them."""
        assert not isinstance(reading.pinned, NoVersion)
        schema, batches = self._rows.batches(reading.pinned, columns=reading.columns.names)
        if len(schema) != 1:
            return None
        lower = after if after is not None else reading.initial
        return SortedColumn.of((batch.column(0) for batch in batches), reading.columns.kinds[0], lower)

    def added(self, before: Resolved, after: Resolved) -> DataFrame:
        """The rows that a version of a target has and an earlier one does not, hidden ones too."""
        from lakewarden.engine.comparison.new_rows import Since

        return self._new_rows.frame(Since(before, after, raw=True))

    def evaluate(self, reading: Reading, one: Range, target: Sequence[str]) -> None:
        """Compute the rows of a range and write them nowhere; raises what the SQL fails on."""
        with self.rows_of(reading, [one], target) as rows, translating_spark():
            rows(self._spark().session()).write.format("noop").mode("overwrite").save()

    @contextmanager
    def rows_of(
        self, reading: Reading, ranges: Sequence[Range], target: Sequence[str], tasks: int = 1
    ) -> Iterator[Callable[[SparkSession], DataFrame]]:
        """What gives the rows of ranges that follow each other, as the target's columns.

        The rows of several ranges come in so many tasks each, one range after another: a task has rows of one range.
        """

        with self.numbered_rows(reading, ranges, target) as numbered:
            yield lambda session: _by_range(numbered(session), len(ranges), tasks).drop(RANGE)

    @contextmanager
    def numbered_rows(
        self, reading: Reading, ranges: Sequence[Range], target: Sequence[str]
    ) -> Iterator[Callable[[SparkSession], DataFrame]]:
        """What gives the rows of ranges in any order, as the target's columns and the number of each row's range."""

        def frame(session: SparkSession) -> DataFrame:
            from pyspark.sql import functions as F

            view = views.enter_context(self._views(session, reading, ranges))
            if len(ranges) > 1:
                found = session.sql(reading.insertion.in_one_pass(view))
            else:
                before = ranges[0].lower if ranges[0].lower is not None else reading.initial
                values = _values(reading.columns, before, ranges[0].rows)
                found = session.sql(reading.insertion.query(view, values)).withColumn(RANGE, F.lit(0))
            return _as_target(found, reading.insertion, session.table(identifier(target)))

        with self._without_hidden_values(reading), ExitStack() as views:
            yield frame

    def _without_hidden_values(self, reading: Reading) -> AbstractContextManager[None]:
        versions = [one for one in reading.versions.values() if not isinstance(one, NoVersion)]
        return without_values(any(self._rows.hidden(one) for one in versions))

    def _source(self, reading: Reading) -> DataFrame:
        new = reading.new
        frame = self._whole(reading.pinned) if new is None else self._new_rows.frame(new)
        if reading.initial is not None:
            frame = frame.where(reading.columns.within(reading.initial, None))
        return frame.where(reading.columns.is_none_of(reading.without)) if reading.without else frame

    def _whole(self, version: Resolved | NoVersion) -> DataFrame:
        if isinstance(version, NoVersion):
            return self._spark().session().table(identifier(version.name.lake, version.name.identifier)).where("false")
        return self._rows.dataframe(version)

    @contextmanager
    def _views(
        self, session: SparkSession, reading: Reading, ranges: Sequence[Range] | None
    ) -> Iterator[Callable[[str], str]]:
        """Temporary views of pinned versions, and one of the rows of some ranges, with their numbers."""
        names = {view: f"lakewarden_{uuid.uuid4().hex}" for view in reading.insertion.views}
        for view, name in names.items():
            if view == RANGED:
                frame = self._source(reading)
                if ranges:
                    frame = frame.where(reading.columns.within(ranges[0].lower, ranges[-1].upper))
                if ranges and len(ranges) > 1:
                    uppers = [each.upper or () for each in ranges[:-1]]
                    frame = frame.withColumn(RANGE, reading.columns.number(uppers))
            else:
                frame = self._whole(reading.versions[view])
            frame.createOrReplaceTempView(name)
        try:
            yield names.__getitem__
        finally:
            for name in names.values():
                session.catalog.dropTempView(name)


def _ranges(frame: DataFrame, columns: TupleColumns, after: Tuple | None, size: int, fraction: float) -> list[Range]:
    """The ranges of a frame; if the fraction is not 1, their bounds are those of a sample."""
    frame = frame.select(*(identifier(name) for name in columns.names))
    sample = _tuples(frame.sample(fraction, _SEED), columns) if fraction < 1 else []
    if not sample:  # also if too few rows are left to be in a sample
        return _divided(_tuples(frame, columns), after, size)
    return _counted(frame, columns, _divided(sample, after, max(1, round(size * fraction))))


def _counted(frame: DataFrame, columns: TupleColumns, drafts: list[Range]) -> list[Range]:
    """The same ranges with exact counts, the last one up to the last row."""
    from pyspark.sql import functions as F

    found = frame.groupBy(columns.number([draft.upper or () for draft in drafts[:-1]]).alias(RANGE)).count()
    counts = {row[RANGE]: row["count"] for row in found.collect()}
    last = frame.orderBy(*(F.col(identifier(name)).desc() for name in columns.names)).limit(1)
    end = _tuples(last, columns)[-1][0]
    kept: list[Range] = []
    for number, draft in enumerate(drafts):
        if counts.get(number):
            lower = kept[-1].upper if kept else draft.lower
            kept.append(Range(lower, end if number == len(drafts) - 1 else draft.upper, counts[number]))
    return kept


def _tuples(frame: DataFrame, columns: TupleColumns) -> list[tuple[Tuple, int]]:
    """The tuples of a frame in their order, and how often each occurs."""
    names = [identifier(name) for name in columns.names]
    found = frame.groupBy(*names).count().orderBy(*names).toArrow()
    values = zip(*(found.column(place).to_pylist() for place in range(len(names))), strict=True)
    return list(zip(values, found.column(len(names)).to_pylist(), strict=True))


def _values_of(batch: pa.RecordBatch, columns: TupleColumns) -> Iterator[Tuple]:
    return zip(*(batch.column(name).to_pylist() for name in columns.names), strict=True)


def _divided(tuples: list[tuple[Tuple, int]], after: Tuple | None, size: int) -> list[Range]:
    """Ranges of at most so many rows, or of one tuple that has more."""
    ranges: list[Range] = []
    rows, lower = 0, after
    for place, (values, count) in enumerate(tuples):
        rows += count
        is_last = place + 1 == len(tuples)
        if is_last or rows + tuples[place + 1][1] > size:
            ranges.append(Range(lower, values, rows))
            rows, lower = 0, values
    return ranges


def _values(columns: TupleColumns, lower: Tuple | None, rows: int) -> dict[str, object]:
    """By placeholder, what a template is filled with."""
    at = lower if lower is not None else (None,) * len(columns.names)
    return {BATCH_SIZE: rows} | {f"{CHECKPOINT}{name}": value for name, value in zip(columns.names, at, strict=True)}


def _by_range(rows: DataFrame, ranges: int, tasks: int) -> DataFrame:
    """The same rows, each in a task of its range; Spark fails if one were in another. Those of one range stay."""
    from pyspark.sql import functions as F

    if ranges == 1:
        return rows
    if tasks > 1:
        rows = rows.withColumn(RANGE, F.col(RANGE) * tasks + F.spark_partition_id() % tasks)
    together = rows.repartitionById(ranges * tasks, F.col(RANGE))
    return together.where(F.coalesce(F.assert_true(F.col(RANGE) == F.spark_partition_id()), F.lit(True)))


def _as_target(found: DataFrame, insertion: Insertion, target: DataFrame) -> DataFrame:
    """The rows of a query with the names and types of the target's columns, as an INSERT would do it."""
    from pyspark.sql import functions as F

    wanted = target.schema.fields
    given = found.columns[:-1]
    names = list(insertion.columns) or (given if insertion.is_by_name else [field.name for field in wanted])
    if len(names) != len(given):
        raise BadValue(f"the SQL selects {len(given)} columns for {len(names)} columns of the target", "Name them.")
    unknown = {name.lower() for name in names} - {field.name.lower() for field in wanted}
    if unknown:
        raise BadValue(f"the target has no column {', '.join(sorted(unknown))}", "Correct the SQL, or the table.")
    plain = found.toDF(*(f"c{place}" for place in range(len(given))), RANGE)
    places = {name.lower(): place for place, name in enumerate(names)}

    def column(field: StructField) -> Column:
        place = places.get(field.name.lower())
        value = (F.lit(None) if place is None else F.col(f"c{place}")).cast(field.dataType)
        if not field.nullable:
            missing = F.raise_error(F.lit(f"column {field.name} of the target is required, and the SQL gives NULL"))
            value = F.coalesce(value, missing.cast(field.dataType))
        return value.alias(field.name)

    columns = [column(field) for field in wanted]
    return plain.select(*columns, F.col(RANGE).cast("int").alias(RANGE))
