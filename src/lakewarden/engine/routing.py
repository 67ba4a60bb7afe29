"""Sends each table's change the way that it must go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from lakewarden.engine.changes import (
    Cleansed,
    Cleansing,
    Expiry,
    ManifestMerge,
    Mask,
    RefChange,
    Rewrite,
    Rewritten,
    RewrittenGroup,
    ShortenedLog,
    Unmask,
)
from lakewarden.engine.commit import DirectCommits
from lakewarden.errors import StalePlan
from lakewarden.lifecycle.plan import SPARK_SQL

if TYPE_CHECKING:
    from pyiceberg.table import Table


class SparkRefs(Protocol):
    """What publishes refs where nothing but Spark can."""

    def refs(self, change: RefChange) -> None: ...

    def shorten_log(self, change: ShortenedLog) -> int: ...


class RoutedCommits:
    """Sends each table's change by its route: directly, or through Spark where nothing else can."""

    def __init__(
        self, direct: DirectCommits, through_spark: Callable[[], SparkRefs], needs_spark: Callable[[str], bool]
    ) -> None:
        self._direct = direct
        self._through_spark = through_spark
        self._needs_spark = needs_spark

    def refs(self, change: RefChange) -> None:
        needs_spark = self._needs_spark(change.table)
        if needs_spark != (change.route == SPARK_SQL):  # planned as one commit, it would now be several, or the reverse
            raise StalePlan(
                f"the plan is stale: {change.table} was to be changed by {change.route}, and its format is another now",
                "Nothing was written. Plan again.",
            )
        (self._through_spark() if needs_spark else self._direct).refs(change)

    def rewrite(self, change: Rewrite, discard: Callable[[RewrittenGroup], None]) -> Rewritten:
        return self._by_us(change.table).rewrite(change, discard)

    def merge_manifests(self, change: ManifestMerge) -> int | None:
        return self._by_us(change.table).merge_manifests(change)

    def expire(self, change: Expiry, check: Callable[[Table], None]) -> None:
        self._by_us(change.table).expire(change, check)

    def shorten_log(self, change: ShortenedLog) -> int:
        needs_spark = self._needs_spark(change.table)
        return (self._through_spark() if needs_spark else self._direct).shorten_log(change)

    def cleanse(self, change: Cleansing, about_to: Callable[[Sequence[str]], None]) -> Cleansed | None:
        return self._by_us(change.table).cleanse(change, about_to)

    def mask(self, change: Mask) -> int | None:
        return self._by_us(change.table).mask(change)

    def unmask(self, change: Unmask) -> int:
        return self._by_us(change.table).unmask(change)

    def _by_us(self, table: str) -> DirectCommits:
        """What on Spark is one of Iceberg's procedures, and not a commit of ours."""
        if self._needs_spark(table):
            raise StalePlan(f"the plan is stale: {table} has another format now", "Nothing was written. Plan again.")
        return self._direct
