"""Runs the stages of a comparison in this process: no JVM, memory bounded, the rest waits on disk."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from lakewarden.engine.comparison.exchange import Exchange
from lakewarden.engine.kernel.compare_messages import Compared, Part, grouped
from lakewarden.engine.kernel.compare_task import (
    Item,
    Report,
    Stage,
    counting_keys,
    fetching,
    hashed,
    hashing,
    pairing,
    settling,
    taking,
)
from lakewarden.engine.kernel.memory import Budget, plain_allocation, resident_bytes

Progress = Callable[[int, int], None]
Work = TypeVar("Work")
Done = TypeVar("Done")
_THREADS = 2
_ROWS_A_BUCKET = 1 << 19
_BYTES_A_BUCKET = 16 << 20
_LEAST_AT_ONCE, _BYTES_AT_ONCE, _FILES_AT_ONCE = 1 << 20, 16 << 20, 64
_PART_BUCKETS = 64


def run(parts: Sequence[Part], compared: Compared, progress: Progress) -> Iterator[Report]:
    """All reports of a comparison."""
    keys = [part for part in parts if part.purpose == "keys"]
    rest = [part for part in parts if part.purpose != "keys"]
    with tempfile.TemporaryDirectory(prefix="lakewarden-compare-") as folder, plain_allocation():
        yield from _Run(Path(folder), parts, compared, progress).compare(rest)
        if keys:
            yield from _Run(Path(folder) / "keys", parts, compared, progress).check_keys(keys)


def added(parts: Sequence[Part], compared: Compared) -> Iterator[Item | Report]:
    """The rows that only the `to` side has, and reports."""
    with tempfile.TemporaryDirectory(prefix="lakewarden-compare-") as folder, plain_allocation():
        yield from _Run(Path(folder), parts, compared, lambda done, total: None).added(parts)


class _Run:
    def __init__(self, folder: Path, parts: Sequence[Part], compared: Compared, progress: Progress) -> None:
        self._folder, self._parts, self._progress = folder, parts, progress
        before = resident_bytes()
        self._budget = Budget.within(max(compared.memory_bytes * 3 // 4, before + compared.memory_bytes // 2))
        rows = sum(part.rows for part in parts if part.purpose in ("compare", "keys"))
        buckets = max(1, math.ceil(rows / _ROWS_A_BUCKET))
        self._compared = replace(compared, hash_buckets=buckets, part_buckets=min(buckets * 2, _PART_BUCKETS))

    def compare(self, parts: Sequence[Part]) -> Iterator[Report]:
        by_part = Exchange(self._folder / "parts")
        yield from self._settle(parts, by_part)
        width = max((part.bytes / max(part.rows, 1) for part in self._parts), default=0.0)
        needed = by_part.rows * width * 6  # files are compressed
        compared = replace(self._compared, key_buckets=max(1, math.ceil(needed / _BYTES_A_BUCKET)))
        by_key = Exchange(self._folder / "keyed")
        yield from self._stage(by_part, fetching(self._parts, compared), by_key)
        yield from self._stage(by_key, pairing(compared), None)

    def added(self, parts: Sequence[Part]) -> Iterator[Item | Report]:
        by_part = Exchange(self._folder / "parts")
        yield from self._settle(parts, by_part)
        take = taking(self._parts, self._compared)
        for bucket in by_part.buckets():
            yield from take(by_part.take(bucket))

    def _settle(self, parts: Sequence[Part], by_part: Exchange) -> Iterator[Report]:
        """Find the rows that have no equal on the other side."""
        by_hash = Exchange(self._folder / "hashes")
        yield from self._hash(parts, by_hash)
        if self._compared.by_lineage:
            left = Exchange(self._folder / "left")
            yield from self._stage(by_hash, settling(self._compared), left)
            by_hash = Exchange(self._folder / "values")
            yield from self._stage(left, hashing(self._parts, self._compared), by_hash)
        yield from self._stage(by_hash, settling(self._compared), by_part)

    def check_keys(self, parts: Sequence[Part]) -> Iterator[Report]:
        by_hash = Exchange(self._folder)
        yield from self._hash(parts, by_hash)
        yield from self._stage(by_hash, counting_keys, None)

    def _hash(self, parts: Sequence[Part], into: Exchange) -> Iterator[Report]:
        total, done = sum(part.bytes for part in parts), 0

        def work(group: Sequence[Part]) -> tuple[int, list[Report]]:
            return sum(part.bytes for part in group), self._kept(hashed(group, self._compared), into)

        most = max(_LEAST_AT_ONCE, min(_BYTES_AT_ONCE, total // (2 * _THREADS)))  # work for every thread
        for size, reports in _in_threads(work, list(grouped(parts, most, _FILES_AT_ONCE))):
            done += size
            self._progress(done, total)
            yield from reports

    def _stage(self, source: Exchange, stage: Stage, into: Exchange | None) -> Iterator[Report]:
        def work(bucket: int) -> list[Report]:
            return self._kept(stage(source.take(bucket)), into)

        for reports in _in_threads(work, source.buckets()):
            yield from reports

    def _kept(self, items: Iterable[Item | Report], into: Exchange | None) -> list[Report]:
        """Put items where they go, and keep the reports."""
        reports = []
        for item in items:
            if isinstance(item, Report):
                reports.append(item)
            elif into is not None:
                into.put(*item)
        self._budget.release()
        return reports


def _in_threads(work: Callable[[Work], Done], items: Sequence[Work]) -> Iterator[Done]:
    if len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="compare") as threads:
        yield from threads.map(work, items)
