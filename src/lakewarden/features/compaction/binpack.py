"""Which files of a table are worth writing anew together: the one function that analysis and compaction both ask.

Files are candidates where a table has too many small ones, where its files are small on average, or where too many
of a file's rows are deleted already. Candidates of one partition are put into bins of the target size; a bin pays
if it makes one file of several, or frees rows. Nothing else is touched, so what was just compacted needs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.features.compaction.policy import CompactionPolicy

FEW = 10  # so many small files are no reason to do anything
TOGETHER = 5  # files that must come together to be worth it, unless they fill a whole new one
MASKED_SHARE = 0.1  # of a file's rows: with more deleted it is written anew even by itself
MANY_DELETES = 10  # delete files that one data file needs to be read
SPLIT_FROM = 1.25  # a bin is shared by several tasks while each part is this much larger than what is enough
MOST_PARTS = 8


@dataclass(frozen=True)
class Candidate:
    """A live data file as far as packing is concerned."""

    path: str
    bytes: int
    rows: int
    partition: Any
    masked: int = 0
    deletes: int = 0
    order: int = 0  # files written one after the other stay so
    is_rewritten: bool = False  # by an earlier compaction

    @property
    def is_masked(self) -> bool:
        """Whether deletes alone make it worth writing anew."""
        return self.deletes >= MANY_DELETES or (self.rows > 0 and self.masked / self.rows > MASKED_SHARE)


@dataclass(frozen=True)
class Bin:
    """Files of one partition that become one, or where they are large several by several tasks."""

    files: tuple[Candidate, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def masked(self) -> int:
        return sum(file.masked for file in self.files)


@dataclass(frozen=True)
class Packing:
    """The bins that pay, and why anything is done at all."""

    bins: tuple[Bin, ...] = ()
    reason: str = ""

    @property
    def files(self) -> int:
        return sum(len(bin.files) for bin in self.bins)

    @property
    def bytes(self) -> int:
        return sum(bin.bytes for bin in self.bins)

    def files_after(self, policy: CompactionPolicy) -> int:
        """A prediction: how many files the bins become."""
        return sum(max(1, -(-bin.bytes // policy.target)) for bin in self.bins)


def pack(files: Sequence[Candidate], policy: CompactionPolicy) -> Packing:
    """The bins of files that are worth writing anew."""
    if policy.rewrite_all and any(not file.is_rewritten for file in files):
        return _packing([f for f in files if not f.is_rewritten], policy, "rewrite_all is set", lambda _: True)
    small = [file for file in files if file.bytes < policy.small]
    average = sum(file.bytes for file in files) / len(files) if files else 0
    masked = [file for file in files if file.is_masked]
    reasons = []
    limit = 0
    if len(small) > FEW:
        limit = policy.small
        reasons.append(f"{len(small)} files are under {policy.small >> 20} MB")
    if len(files) > FEW and average < policy.enough:
        limit = policy.enough
        reasons.append(f"files have {average / (1 << 20):.1f} MB on average")
    if masked:
        reasons.append(f"{sum(file.masked for file in masked)} rows in {len(masked)} files are deleted already")
    if not reasons:
        return Packing()
    return _packing([f for f in files if f.bytes < limit or f.is_masked], policy, "; ".join(reasons), _pays(policy))


def _packing(files: Sequence[Candidate], policy: CompactionPolicy, reason: str, pays: Callable[[Bin], bool]) -> Packing:
    by_partition: dict[Any, list[Candidate]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    bins = [
        part
        for partition in sorted(by_partition, key=repr)
        for bin in _bins(by_partition[partition], policy.target)
        if pays(bin)
        for part in _shared(bin, policy)
    ]
    return Packing(tuple(bins), reason) if bins else Packing()


def _pays(policy: CompactionPolicy) -> Callable[[Bin], bool]:
    def pays(bin: Bin) -> bool:
        if any(file.is_masked for file in bin.files):
            return True
        several = len(bin.files) > 1
        return len(bin.files) >= TOGETHER or (several and bin.bytes >= policy.target * 0.75)

    return pays


def _bins(files: Iterable[Candidate], target: int) -> Iterator[Bin]:
    """Files in the order they were written, each bin as full as it gets without passing the target."""
    current: list[Candidate] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.order, file.path)):
        if current and size + file.bytes > target:
            yield Bin(tuple(current))
            current, size = [], 0
        current.append(file)
        size += file.bytes
    if current:
        yield Bin(tuple(current))


def _shared(bin: Bin, policy: CompactionPolicy) -> Iterator[Bin]:
    """A large bin in parts of about the same size, for several tasks at once; each part stays large enough."""
    parts = 1
    left = sum(file.bytes * (1 - file.masked / max(file.rows, 1)) for file in bin.files)
    while parts < MOST_PARTS and left / (parts * 2) >= policy.enough * SPLIT_FROM:
        parts *= 2
    share, current, size = bin.bytes / parts, list[Candidate](), 0
    for file in bin.files:
        if current and size + file.bytes / 2 > share:
            yield Bin(tuple(current))
            current, size = [], 0
        current.append(file)
        size += file.bytes
    if current:
        yield Bin(tuple(current))


def together(bins: Sequence[Bin], policy: CompactionPolicy) -> Iterator[tuple[Bin, ...]]:
    """Bins that are published in one commit: not too many at once, so that progress is kept."""
    current: list[Bin] = []
    for bin in bins:
        full = len(current) >= policy.max_concurrent_files or sum(b.bytes for b in current) >= policy.target * 16
        if current and full:
            yield tuple(current)
            current = []
        current.append(bin)
    if current:
        yield tuple(current)
