"""When the partitions of a view set are, by the hash that they are stored with: from partition values alone.

A view set asks this of itself to know which of its former schemas count as current, so nothing here knows view sets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from lakewarden.quantities import from_micros

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

NONE = -1  # no field has this id, and no value this place
Stored = tuple[str, datetime, datetime, str]
"""Instance, begin, end and the hash that is stored."""


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


def stored_times(table: Table, identity: Sequence[str], at: Snapshot | None) -> Iterator[Stored]:
    """The partitions with rows, once for each file; `identity` names the columns that partitions are known by."""
    from lakewarden.engine.files.manifests import holds_data, listed_files, manifests_of

    snapshot = at or table.current_snapshot()
    ids = {field.name: field.field_id for field in table.schema().fields}
    known = {spec.spec_id: identity_places(spec, ids, identity) for spec in table.metadata.partition_specs}
    for manifest in manifests_of(table.io, snapshot) if snapshot is not None else ():
        there = known[manifest.partition_spec_id]
        if there is None or not holds_data(manifest):
            continue
        for file in listed_files(table.io, manifest):
            instance, begin, end, stored = itemgetter(*there)(file.partition)
            if instance is not None and begin is not None and end is not None and stored is not None:
                yield instance, from_micros(begin), from_micros(end), stored


def identity_places(spec: PartitionSpec, ids: Mapping[str, int], identity: Sequence[str]) -> tuple[int, ...] | None:
    """Where a partition's identity is among its values; None if a spec lacks a part of it."""
    found = {field.source_id: place for place, field in enumerate(spec.fields)}
    there = tuple(found.get(ids.get(name, NONE), NONE) for name in identity)
    return None if NONE in there else there


def without_doubled(hashes: Sequence[str], there: Iterable[Stored]) -> list[str]:
    """The first hash, and each of the others none of whose partitions shares time with those of one before it."""
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
