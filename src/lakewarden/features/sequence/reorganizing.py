"""From the partitions that a table has to those that it should have: ALTER statements, the tail first.

A statement replaces neighbouring partitions by others of the same range. Each is as small as possible: between two
bounds that stay, and together with a neighbour only if a new name would clash with the neighbour's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.engine.base.quoting import identifier
from lakewarden.features.sequence.connection import LOCK_SECONDS
from lakewarden.features.sequence.partitions import MAXVALUE, Partition, PartitionedTable, Position


@dataclass(frozen=True)
class Reorganization:
    """Neighbouring partitions, and what takes their place."""

    old: tuple[Partition, ...]
    new: tuple[Partition, ...]

    def sql(self, table: PartitionedTable) -> str:
        names = ", ".join(identifier(partition.name) for partition in self.old)
        into = ", ".join(definition(partition, len(table.columns)) for partition in self.new)
        return f"ALTER TABLE {table.sql_name} WAIT {LOCK_SECONDS} REORGANIZE PARTITION {names} INTO ({into});"


def drop_sql(table: PartitionedTable, partitions: Sequence[Partition]) -> str:
    """A statement that drops partitions with their rows."""
    names = ",".join(identifier(partition.name) for partition in partitions)
    return f"ALTER TABLE {table.sql_name} WAIT {LOCK_SECONDS} DROP PARTITION IF EXISTS {names};"


def definition(partition: Partition, columns: int) -> str:
    """A partition in a statement, by its name and bound."""
    return f"PARTITION {identifier(partition.name)} VALUES LESS THAN {limit(partition.bound, columns)}"


def limit(bound: Position | None, columns: int) -> str:
    if bound is not None:
        return f"({', '.join(map(str, bound))})"
    return MAXVALUE if columns == 1 else f"({', '.join([MAXVALUE] * columns)})"


def reorganizations(old: Sequence[Partition], new: Sequence[Partition]) -> list[Reorganization]:
    """What turns the old empty partitions into the new ones, in the order in which to do it."""
    return [block for block in reversed(_without_clashes(_blocks(old, new))) if block.old != block.new]


def _blocks(old: Sequence[Partition], new: Sequence[Partition]) -> list[Reorganization]:
    """Both lists, cut at the bounds that they have in common."""
    common = {partition.bound for partition in old} & {partition.bound for partition in new}
    return [Reorganization(*both) for both in zip(_cut(old, common), _cut(new, common), strict=True)]


def _cut(partitions: Sequence[Partition], bounds: set[Position | None]) -> list[tuple[Partition, ...]]:
    parts: list[tuple[Partition, ...]] = []
    current: list[Partition] = []
    for partition in partitions:
        current.append(partition)
        if partition.bound in bounds:
            parts.append(tuple(current))
            current = []
    return parts


def _without_clashes(blocks: list[Reorganization]) -> list[Reorganization]:
    """The blocks; one whose new name still belongs to a block before it is done together with that one."""
    for place in reversed(range(len(blocks))):
        new = {partition.name.lower() for partition in blocks[place].new}
        for earlier in range(place):
            if new & {partition.name.lower() for partition in blocks[earlier].old}:
                merged = Reorganization(
                    tuple(partition for block in blocks[earlier : place + 1] for partition in block.old),
                    tuple(partition for block in blocks[earlier : place + 1] for partition in block.new),
                )
                return _without_clashes([*blocks[:earlier], merged, *blocks[place + 1 :]])
    return blocks
