"""Writes the rows of a query to new files, sorted out by a number: the driver of `kernel/exchange_task.py`.

Every task report is checked against the footers of the new files before they are returned, as for rewrites. Spark
commits nothing: what a Spark Connect server writes after its client has died is never published.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.files.written_files import AddedFile, check_null_counts, new_data_file, read_footers
from lakewarden.engine.kernel.messages import GroupReport, Layout
from lakewarden.engine.rewrite.driver import access_of, explaining_missing_module, raise_failures
from lakewarden.engine.spark.session import send_by_value, translating_spark
from lakewarden.engine.spark.time_limit import within
from lakewarden.errors import LakewardenError, VerificationFailed
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.interrupts import deferred

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType
    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.config import LakeSettings
    from lakewarden.engine.kernel.exchange_task import Piece, Slice
    from lakewarden.engine.spark.session import Spark
    from lakewarden.engine.storage.storage import Storage

_OF_A_TASK = 64 << 20  # bytes of rows in memory; a file takes about a third of that
_OF_A_PIECE = 1 << 30
_WIDE = 1 << 10
"""Bytes of a row in a source's files, from which on Spark must measure rows while it sends them to Python."""
_UNMEASURED: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
}
log = logging.getLogger(__name__)
_PLAIN = ["boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary"]


def is_exchangeable(table: Table) -> bool:
    """Whether new rows of a table can be written this way: else Spark's own writer does what the table asks for."""
    metadata, properties = table.metadata, table.metadata.properties
    return (
        metadata.format_version <= 2
        and table.spec().is_unpartitioned()
        and table.sort_order().is_unsorted
        and properties.get("write.format.default", "parquet").lower() == "parquet"
        and properties.get("write.object-storage.enabled", "false").lower() != "true"
        and "write.location-provider.impl" not in properties
        and all(_is_plain(field.field_type) for field in table.schema().fields)
    )


def _is_plain(kind: IcebergType) -> bool:
    """Whether Spark and Iceberg have the same idea of a type.

    Not if something within it is required: Spark sends nulls for it where a struct above it is null.
    """
    from pyiceberg.types import DecimalType, ListType, MapType, StructType

    if isinstance(kind, StructType):
        return all(_is_plain(field.field_type) and not field.required for field in kind.fields)
    if isinstance(kind, ListType):
        return _is_plain(kind.element_type) and not kind.element_required
    if isinstance(kind, MapType):
        return _is_plain(kind.key_type) and _is_plain(kind.value_type) and not kind.value_required
    return isinstance(kind, DecimalType) or str(kind) in _PLAIN


@dataclass(frozen=True)
class NumberedRows:
    """The rows of a query, and how they are read."""

    frame: Callable[[SparkSession], DataFrame]
    """Gives them; the last column is their number."""
    row_bytes: float
    """How long a row of the source is in its files."""
    most_seconds: float = inf
    look: Callable[[], None] = lambda: None
    """Called regularly while Spark works."""


class Exchange:
    """Writes new rows of one table on Spark."""

    def __init__(self, spark: Callable[[], Spark], settings: LakeSettings, storage: Storage) -> None:
        self._spark, self._settings, self._storage = spark, settings, storage

    def write(self, table: Table, rows: NumberedRows, layout: Layout, folder: str) -> dict[int, tuple[AddedFile, ...]]:
        """Write rows into a folder that belongs to this call; returns the new files by number.

        If anything fails, nothing is left there, but for what tasks write that do not hear of it in time.
        """
        about = f"table {'.'.join(table.name())}"
        try:
            with translating(about):
                written = self._written(about, rows, layout, folder)
                added = self._checked(about, table, *written)
                self._clear(folder, {each.file.file_path for files in added.values() for each in files})
        except BaseException:
            with suppress(LakewardenError):  # the first error is raised
                self._clear(folder, set())
            raise
        reach("exchange.checked")
        return added

    def _written(
        self, about: str, rows: NumberedRows, layout: Layout, folder: str
    ) -> tuple[Counter[int], list[GroupReport]]:
        """How many rows each number has, and the reports of their files."""
        from lakewarden.engine.kernel.exchange_task import Spread, gather, packed, parts, spread
        from lakewarden.engine.kernel.task import REPORT_SCHEMA

        for part in parts():
            send_by_value(part)
        access, session = access_of(self._settings), self._spark().session()
        until = time.monotonic() + rows.most_seconds

        def collected(frame: Callable[[], DataFrame]) -> list[str]:
            left = max(until - time.monotonic(), 0.1)
            with explaining_missing_module(), translating_spark(), within(session, left, rows.look):
                return [row[0] for row in frame().collect()]

        task = spread(folder, layout.memory_bytes, access)
        with _large_batches.within(session, rows.row_bytes < _WIDE):
            texts = collected(lambda: rows.frame(session).mapInArrow(task, REPORT_SCHEMA))
        found = [Spread.from_json(text) for text in texts]
        raise_failures(about, [each.failure for each in found])
        reach("exchange.spread")
        slices = [each for of_task in found for each in of_task.slices]
        if not slices:
            return Counter(), []
        schema = next(each.schema for each in found if each.schema)
        _check_columns(about, schema, layout)
        work = gather(schema, folder, layout, access)
        tasks = [(packed(pieces),) for pieces in _tasks(_pieces(slices))]
        texts = collected(lambda: session.createDataFrame(tasks, "pieces string").mapInArrow(work, REPORT_SCHEMA))
        reports = [GroupReport.from_json(text) for text in texts]
        raise_failures(about, [report.failure for report in reports])
        reach("exchange.written")
        counts: Counter[int] = Counter()
        for each in slices:
            counts[each.number] += each.rows
        return counts, reports

    def _checked(
        self, about: str, table: Table, counts: Counter[int], reports: Sequence[GroupReport]
    ) -> dict[int, tuple[AddedFile, ...]]:
        """The new files, if their footers have as many rows and nulls as tasks had."""
        outputs = [(report, output) for report in reports for output in report.outputs]
        footers = read_footers(self._storage, [output.path for _, output in outputs])
        files: dict[int, list[AddedFile]] = {}
        written: Counter[int] = Counter()
        for report, output in outputs:
            file = new_data_file(table, footers[output.path], output.nans)
            check_null_counts(about, output.nulls, [file])
            written[report.number] += file.record_count
            files.setdefault(report.number, []).append(AddedFile(file, table.metadata.default_spec_id))
        if written != counts:
            raise VerificationFailed(
                f"{about}: {counts.total()} rows were to be written, but the new files have {written.total()}",
                "Nothing was published. Try again.",
            )
        return {number: tuple(some) for number, some in files.items()}

    def _clear(self, folder: str, kept: set[str]) -> None:
        """Delete all other files in a folder: exchanged rows, and what retried tasks have written."""
        places = {same_place(path) for path in kept}
        found = [file.path for file in self._storage.walk(folder) if same_place(file.path) not in places]
        removed = self._storage.delete_all(found)
        if removed.failed:
            log.warning("%d temporary files in %s could not be deleted", len(removed.failed), folder)


def _check_columns(about: str, schema: bytes, layout: Layout) -> None:
    """Refuse rows with other columns than the table had when it was loaded."""
    import pyarrow as pa

    assert layout.schema is not None
    sent, wanted = (pa.ipc.read_schema(pa.py_buffer(each)).names for each in (schema, layout.schema))
    if sent != wanted:
        raise VerificationFailed(f"{about}: its columns changed meanwhile", "Nothing was published. Try again.")


def _pieces(slices: Iterable[Slice]) -> Iterator[Piece]:
    """The slices of each number together, by number; in several pieces if they are very large."""
    from lakewarden.engine.kernel.exchange_task import Piece

    by_number: dict[int, list[Slice]] = {}
    for each in slices:
        by_number.setdefault(each.number, []).append(each)
    for number, own in sorted(by_number.items()):
        for some in _filled(own, _OF_A_PIECE):
            yield Piece(number, tuple(some))


def _tasks(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    yield from _filled(pieces, _OF_A_TASK)


def _filled(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Consecutive items of about so many bytes together."""
    some: list[Any] = []
    size = 0
    for item in items:
        if some and size + item.bytes > most:
            yield some
            some, size = [], 0
        some.append(item)
        size += item.bytes
    if some:
        yield some


class _LargeBatches:
    """Has Spark send rows to Python without measuring each, which takes twice as long as all the rest.

    The settings are those of the session, which several threads may use: the last one restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: dict[str, str | None] = {}

    @contextmanager
    def within(self, session: SparkSession, are_narrow: bool) -> Iterator[None]:
        """If rows are narrow: how many are sent at once is then enough of a limit."""
        if not are_narrow:
            yield
            return
        self._count(session, 1)
        try:
            yield
        finally:
            self._count(session, -1)

    def _count(self, session: SparkSession, change: int) -> None:
        with deferred(), self._lock:
            if not self._users:
                self._before = {key: session.conf.get(key, None) for key in _UNMEASURED}
            self._users += change
            for key, value in (_UNMEASURED if self._users else self._before).items():
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)


_large_batches = _LargeBatches()
