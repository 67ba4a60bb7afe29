"""Runs the stages of a comparison in Spark's tasks; rows travel between them through Spark's shuffle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakewarden.engine.kernel import compare_task
from lakewarden.engine.kernel.compare_messages import Compared, Part, grouped
from lakewarden.engine.kernel.compare_task import ITEM_SCHEMA, Report, Stage, over_rows, reading
from lakewarden.engine.spark.session import Spark, send_by_value, translating_spark

_ROWS_A_BUCKET = 1 << 20
_BYTES_A_BUCKET = 24 << 20  # compressed
_BYTES_A_TASK, _FILES_A_TASK = 48 << 20, 256
_MOST_BUCKETS = 4_000


def run(spark: Callable[[], Spark], parts: Sequence[Part], compared: Compared) -> Iterator[Report]:
    """All reports of a comparison."""
    for module in compare_task.modules():
        send_by_value(module)
    rows = sum(part.rows for part in parts)
    size = sum(part.bytes for part in parts)
    compared = replace(
        compared,
        hash_buckets=_buckets(rows / _ROWS_A_BUCKET),
        part_buckets=_buckets(size / _BYTES_A_TASK),
        key_buckets=_buckets(size / _BYTES_A_BUCKET),
    )
    keys = [part for part in parts if part.purpose == "keys"]
    rest = [part for part in parts if part.purpose != "keys"]
    with translating_spark():
        session = spark().session()
        by_lineage: list[tuple[int, Stage]] = [
            (compared.hash_buckets, compare_task.settling(compared)),
            (compared.part_buckets, compare_task.hashing(parts, compared)),
        ]
        stages: list[tuple[int, Stage]] = [
            *(by_lineage if compared.by_lineage else ()),
            (compared.hash_buckets, compare_task.settling(compared)),
            (compared.part_buckets, compare_task.fetching(parts, compared)),
            (compared.key_buckets, compare_task.pairing(compared)),
        ]
        yield from _reports(_flow(session, rest, compared, stages), compared.with_rows)
        if keys:
            keyed = [(compared.hash_buckets, compare_task.counting_keys)]
            yield from _reports(_flow(session, keys, compared, keyed), False)


def _flow(session: Any, parts: Sequence[Part], compared: Compared, stages: Iterable[tuple[int, Stage]]) -> Any:
    groups = list(grouped(parts, _BYTES_A_TASK, _FILES_A_TASK))
    frame = session.range(0, len(groups), 1, len(groups)).mapInArrow(reading(groups, compared), ITEM_SCHEMA)
    for buckets, stage in stages:
        frame = frame.repartition(buckets, "bucket").mapInArrow(over_rows(stage, compared.sample_size), ITEM_SCHEMA)
    return frame.where("is_report").select("content")


def _reports(frame: Any, are_large: bool) -> Iterator[Report]:
    """Reports as tasks make them: one partition after the other if they hold many rows, else all at once."""
    for row in frame.toLocalIterator(prefetchPartitions=True) if are_large else frame.collect():
        yield Report.from_bytes(bytes(row["content"]))


def _buckets(wanted: float) -> int:
    return max(1, min(_MOST_BUCKETS, math.ceil(wanted)))
