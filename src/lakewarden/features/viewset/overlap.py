"""No row may be there twice: partitions of one instance and one schema must not share any time.

Partitions that are written and those that are restored pass the same check: when an operation begins, and again in its
commit, since another process may have written in the meantime.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.errors import StalePlan
from lakewarden.features.viewset.catalogue import Identity, Near, PartitionRow, partitions
from lakewarden.features.viewset.definition import ViewSet, of_table

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader


class Times:
    """Times that are taken, joined where they follow each other."""

    def __init__(self) -> None:
        self._begins: list[datetime] = []
        self._ends: list[datetime] = []

    def covers(self, begin: datetime, end: datetime) -> bool:
        place = bisect_right(self._begins, begin) - 1
        return place >= 0 and self._ends[place] >= end

    def overlaps(self, begin: datetime, end: datetime) -> bool:
        first, last = bisect_right(self._ends, begin), bisect_left(self._begins, end)
        return first < last

    def add(self, begin: datetime, end: datetime) -> None:
        first, last = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last], self._ends[first:last] = [begin], [end]


def doubled(there: Iterable[PartitionRow], coming: Iterable[Identity]) -> Identity | None:
    """The first of some partitions to come whose rows would be there twice."""
    times: dict[tuple[str, str], Times] = {}
    for instance, begin, end, schema_hash in sorted({row.identity for row in there}):
        times.setdefault((instance, schema_hash), Times()).add(begin, end)
    for one in coming:
        instance, begin, end, schema_hash = one
        if (instance, schema_hash) in times and times[instance, schema_hash].overlaps(begin, end):
            return one
    return None


def without_doubled(hashes: Sequence[str], there: Iterable[Identity]) -> list[str]:
    """The hashes of schemas that count as one, without each of which a partition shares time with one before it."""
    by_hash: dict[str, set[tuple[str, datetime, datetime]]] = {one: set() for one in hashes}
    for instance, begin, end, schema_hash in there:
        if schema_hash in by_hash:
            by_hash[schema_hash].add((instance, begin, end))
    times: dict[str, Times] = {}
    counting: list[str] = []
    for schema_hash, own in by_hash.items():
        if not any(instance in times and times[instance].overlaps(*time) for instance, *time in own):
            counting.append(schema_hash)
            for instance, begin, end in sorted(own):
                times.setdefault(instance, Times()).add(begin, end)
    return counting


def unshared(
    lake: Reader, view: ViewSet, coming: Collection[Identity], leaving: Collection[str] = ()
) -> Callable[[Table], None]:
    """A check for commits: nothing has a part of the time of what is to come, but what leaves in the same commit.

    `leaving` has paths of files, and identities of partitions without rows.
    """

    def check(table: Table) -> None:
        now = of_table(view.table_name, table)
        if now is None or (now.schema_hash, now.kept) != (view.schema_hash, view.kept):
            raise schema_changed(view)
        there = partitions(lake, now, _near(coming))
        found = doubled((row for row in there if (row.file_path or row.identity_text) not in leaving), coming)
        if found is not None:
            instance, begin, end, _ = found
            raise StalePlan(
                f"the plan is stale: {view.name} has partitions of {instance} between {begin:%Y-%m-%d %H:%M} and "
                f"{end:%Y-%m-%d %H:%M} by now",
                "Its rows would be there twice, so nothing was written. Plan again.",
            )

    return check


def _near(coming: Collection[Identity]) -> Near | None:
    instances = {one[0] for one in coming}
    if len(instances) != 1:
        return None
    return Near(instances.pop(), min(one[1] for one in coming), max(one[2] for one in coming))


def schema_changed(view: ViewSet) -> StalePlan:
    return StalePlan(
        f"the plan is stale: the schema of the view set {view.name} changed, or which former ones count as current",
        "Nothing was changed. Plan again.",
    )
