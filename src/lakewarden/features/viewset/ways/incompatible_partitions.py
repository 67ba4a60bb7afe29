"""The incompatible partitions of a view set, apart from those whose time others have already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakewarden.features.viewset.catalogue import Identity, PartitionRow
from lakewarden.features.viewset.stored_times import Times

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Partition:
    """A partition with all of its files."""

    rows: tuple[PartitionRow, ...]

    @property
    def identity(self) -> Identity:
        return self.rows[0].identity

    @property
    def instance(self) -> str:
        return self.rows[0].view_instance_id

    @property
    def begin(self) -> datetime:
        return self.rows[0].begin_insert_time

    @property
    def end(self) -> datetime:
        return self.rows[0].end_insert_time

    @property
    def schema_hash(self) -> str:
        return self.rows[0].file_schema_hash

    @property
    def bytes(self) -> int:
        return sum(row.file_size for row in self.rows)

    @property
    def num_rows(self) -> int:
        return sum(row.num_rows for row in self.rows)

    @property
    def updated(self) -> datetime:
        return max((row.updated or _LONG_AGO for row in self.rows), default=_LONG_AGO)

    @property
    def source_hashes(self) -> set[str]:
        return {row.source_data_hash for row in self.rows}


def whole(rows: Iterable[PartitionRow]) -> list[Partition]:
    """Partitions, from the rows of a list that has one for each file."""
    found: dict[Identity, list[PartitionRow]] = {}
    for row in rows:
        found.setdefault(row.identity, []).append(row)
    return [Partition(tuple(some)) for some in found.values()]


@dataclass
class Sorted:
    """Incompatible partitions: those to heal, and those that share their time with others."""

    left: list[Partition] = field(default_factory=list)
    superseded: list[Partition] = field(default_factory=list)
    """Others have all of their time."""
    overlapping: list[Partition] = field(default_factory=list)
    """Others have a part of their time: neither keeping nor retiring them would be right."""


def sort_out(rows: Iterable[PartitionRow], current: str, rank: Callable[[str], int]) -> Sorted:
    """Find out which partitions are to be healed.

    If several incompatible ones share their time, the one of the lowest rank is healed, and of these the newest.
    """
    found, times = Sorted(), dict[str, Times]()
    partitions = whole(rows)
    for one in partitions:
        if one.schema_hash == current:
            times.setdefault(one.instance, Times()).add(one.begin, one.end)
    others = [one for one in partitions if one.schema_hash != current]
    others.sort(key=lambda one: (one.instance, one.begin))
    others.sort(key=lambda one: one.updated, reverse=True)
    others.sort(key=lambda one: rank(one.schema_hash))
    for one in others:
        own = times.setdefault(one.instance, Times())
        if own.covers(one.begin, one.end):
            found.superseded.append(one)
        elif own.overlaps(one.begin, one.end):
            found.overlapping.append(one)
        else:
            own.add(one.begin, one.end)
            found.left.append(one)
    return found
