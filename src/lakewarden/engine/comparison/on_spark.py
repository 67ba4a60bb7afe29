"""Runs the stages of a comparison in Spark's tasks; rows travel between them through Spark's shuffle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.engine.kernel import compare_task
from lakewarden.engine.kernel.compare_messages import Compared, Part, grouped
from lakewarden.engine.kernel.compare_task import ITEM_SCHEMA, Report, Stage, as_rows, over_rows, reading
from lakewarden.engine.spark.session import Spark, send_by_value, translating_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS_A_BUCKET = 1 << 20
_BYTES_A_BUCKET = 24 << 20  # compressed
_BYTES_A_TASK, _FILES_A_TASK = 48 << 20, 256
_MOST_BUCKETS = 4_000
_ITEM = pa.schema([("bucket", pa.int32()), ("is_report", pa.bool_()), ("content", pa.binary())])


def run(spark: Callable[[], Spark], parts: Sequence[Part], compared: Compared) -> Iterator[Report]:
    """All reports of a comparison."""
    compared = _with_buckets(parts, compared)
    keys = [part for part in parts if part.purpose == "keys"]
    rest = [part for part in parts if part.purpose != "keys"]
    with translating_spark():
        session = spark().session()
        stages: list[tuple[int, Stage]] = [
            *_settling(parts, compared),
            (compared.part_buckets, compare_task.fetching(parts, compared)),
            (compared.key_buckets, compare_task.pairing(compared)),
        ]
        yield from _reports(_flow(session, rest, compared, stages), compared.with_rows)
        if keys:
            keyed = [(compared.hash_buckets, compare_task.counting_keys)]
            yield from _reports(_flow(session, keys, compared, keyed), False)


def added(session: SparkSession, parts: Sequence[Part], compared: Compared, schema: StructType) -> DataFrame:
    """The rows that only the `to` side has, with Spark's types for them; computed by whoever reads the frame."""
    compared = _with_buckets(parts, compared)
    left: DataFrame = _flow(session, parts, compared, _settling(parts, compared))
    left = left.repartition(compared.part_buckets, "bucket")
    return left.mapInArrow(as_rows(compare_task.taking(parts, compared), _message(schema)), schema)


def sent(session: SparkSession, items: Iterable[Any], schema: StructType) -> DataFrame:
    """Rows that were found in this process, with Spark's types for them."""
    _send_modules()
    rows = pa.Table.from_batches(compare_task.packed(items), _ITEM)
    return session.createDataFrame(rows, ITEM_SCHEMA).mapInArrow(as_rows(None, _message(schema)), schema)


def _send_modules() -> None:
    for module in compare_task.modules():
        send_by_value(module)


def _with_buckets(parts: Sequence[Part], compared: Compared) -> Compared:
    _send_modules()
    rows = sum(part.rows for part in parts)
    size = sum(part.bytes for part in parts)
    return replace(
        compared,
        hash_buckets=_buckets(rows / _ROWS_A_BUCKET),
        part_buckets=_buckets(size / _BYTES_A_TASK),
        key_buckets=_buckets(size / _BYTES_A_BUCKET),
    )


def _settling(parts: Sequence[Part], compared: Compared) -> list[tuple[int, Stage]]:
    """The stages that find the rows without an equal on the other side, each after an exchange by so many buckets."""
    by_lineage: list[tuple[int, Stage]] = [
        (compared.hash_buckets, compare_task.settling(compared)),
        (compared.part_buckets, compare_task.hashing(parts, compared)),
    ]
    return [*(by_lineage if compared.by_lineage else ()), (compared.hash_buckets, compare_task.settling(compared))]


def _message(schema: StructType) -> bytes:
    from pyspark.sql.pandas.types import to_arrow_schema

    return bytes(to_arrow_schema(schema).serialize())


def _flow(session: Any, parts: Sequence[Part], compared: Compared, stages: Iterable[tuple[int, Stage]]) -> Any:
    groups = list(grouped(parts, _BYTES_A_TASK, _FILES_A_TASK))
    frame = session.range(0, len(groups), 1, len(groups)).mapInArrow(reading(groups, compared), ITEM_SCHEMA)
    for buckets, stage in stages:
        frame = frame.repartition(buckets, "bucket").mapInArrow(over_rows(stage, compared.sample_size), ITEM_SCHEMA)
    return frame


def _reports(frame: Any, are_large: bool) -> Iterator[Report]:
    """Reports as tasks make them: one partition after the other if they hold many rows, else all at once."""
    frame = frame.where("is_report").select("content")
    for row in frame.toLocalIterator(prefetchPartitions=True) if are_large else frame.collect():
        yield Report.from_bytes(bytes(row["content"]))


def _buckets(wanted: float) -> int:
    return max(1, min(_MOST_BUCKETS, math.ceil(wanted)))
