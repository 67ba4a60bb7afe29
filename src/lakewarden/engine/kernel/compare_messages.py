"""What the tasks of a comparison are given and what they report: plain values that travel to Spark's executors.

A comparison is four stages: `hashed` reads files and hashes their rows, `settled` finds the hashes that occur more
often on one side, `fetched` reads the values of those rows, and `paired` matches them by key. Between stages rows
are exchanged by bucket. The same functions run in this process and in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from lakewarden.engine.kernel.messages import Access, Drop

Side = Literal["from", "to"]
Purpose = Literal["compare", "profile", "count", "keys"]
SIDES: tuple[Side, Side] = ("from", "to")


@dataclass(frozen=True)
class Part:
    """A data file that is read, once for both sides."""

    number: int
    path: str
    rows: int
    bytes: int
    purpose: Purpose
    deletes: dict[Side, tuple[str, ...]]
    """The delete files of each side that has the file."""
    most_rows: int | None = None
    """How many rows of one row group are enough for a profile; all rows if it is None."""
    lineage: tuple[int, int] | None = None
    """The id of its first row and its sequence number: what rows have that the file does not say otherwise of."""


@dataclass(frozen=True)
class Compared:
    """What is compared, for every part alike."""

    schemas: dict[Side, bytes]
    """Arrow schemas as IPC messages, with the field ids of each side: same names, types and order on both."""
    width: int
    """So many of their columns are compared; the rest is read for the filter only."""
    key: tuple[int, ...] = ()
    """Which of the columns are the key."""
    hidden: dict[Side, tuple[Drop, ...]] = field(default_factory=dict)
    where: Any = None
    """A filter, as an Arrow expression over the columns."""
    where_columns: tuple[int, ...] = ()
    tolerances: dict[int, Decimal] = field(default_factory=dict)
    sample_size: int = 10
    sampled_below: dict[str, int] = field(default_factory=dict)
    """For each profile the priority below which rows may be sampled; any may, if it is not here."""
    by_lineage: bool = False
    """Whether rows with the same id and the same last update are known to be equal: format v3 keeps both."""
    with_rows: bool = False
    """Whether every differing row is wanted, not only samples."""
    hash_buckets: int = 1
    part_buckets: int = 1
    key_buckets: int = 1
    memory_bytes: int = 512 << 20
    access: Access = field(default_factory=Access)

    def columns(self, purpose: Purpose) -> list[int]:
        """Which columns are read for a purpose."""
        if purpose in ("compare", "profile"):
            return sorted({*range(self.width), *self.where_columns})
        return sorted({*self.where_columns, *(self.key if purpose == "keys" else ())})


@dataclass
class Counted:
    """What a task has read."""

    rows: dict[Side, int] = field(default_factory=lambda: {"from": 0, "to": 0})
    """Visible rows of each side."""
    files: int = 0
    bytes: int = 0
    duplicate_keys: dict[Side, int] = field(default_factory=lambda: {"from": 0, "to": 0})
    null_keys: dict[Side, int] = field(default_factory=lambda: {"from": 0, "to": 0})

    def add(self, other: Counted) -> None:
        self.files += other.files
        self.bytes += other.bytes
        for mine, theirs in (
            (self.rows, other.rows),
            (self.duplicate_keys, other.duplicate_keys),
            (self.null_keys, other.null_keys),
        ):
            for side in SIDES:
                mine[side] += theirs[side]


def grouped(parts: Sequence[Part], most_bytes: int, most_files: int) -> Iterator[list[Part]]:
    """What one thread or task reads, in the order given."""
    group: list[Part] = []
    size = 0
    for part in parts:
        group.append(part)
        size += part.bytes
        if size >= most_bytes or len(group) >= most_files:
            yield group
            group, size = [], 0
    if group:
        yield group
