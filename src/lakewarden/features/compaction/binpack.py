"""Which files of a table are worth writing anew together: the one function that analysis and compaction both ask.

There is a reason to do anything where a table has too many small files, where its files are small on average,
where too many of a file's rows are deleted already, or where a file's metrics are unsafe for other engines.
Then all of its files that are not large enough are candidates.
Those of one partition are put into bins of the target size; a bin pays if it makes one file of several, or frees rows.

What was just compacted needs nothing, also if new files turn out a third smaller than they were: of the small files
of a partition, every bin but the last is at least three quarters full, and what a full bin becomes is large enough.
So one new file or a few old ones that did not pay are left, and these pay no more than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.features.shared.file_sizes import CompactionPolicy

FEW = 10  # so many small files are no reason to do anything
TOGETHER = 5  # files that must come together to be worth it, unless they fill a whole new one
MASKED_SHARE = 0.1  # of a file's rows: with more deleted it is written anew even by itself
MANY_DELETES = 10  # delete files that one data file needs to be read
LARGE = 0.25  # of the target: from here on, files do not share bins with small ones, which would stay half empty
PART = 1.5  # times what is large enough: the least that one of several tasks gets of a bin
MOST_PARTS = 8


@dataclass(frozen=True, slots=True)
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
    lacks_nan_counts: bool = False  # so that other engines may lose its rows

    @property
    def left(self) -> float:
        """The bytes of it that are not deleted."""
        return self.bytes * (1 - self.masked / max(self.rows, 1))

    @property
    def is_masked(self) -> bool:
        """Whether deletes alone make it worth rewriting."""
        return self.deletes >= MANY_DELETES or (self.rows > 0 and self.masked / self.rows > MASKED_SHARE)

    @property
    def is_due(self) -> bool:
        """Whether it is worth rewriting even by itself, however large it is."""
        return self.is_masked or self.lacks_nan_counts


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

    @property
    def left(self) -> float:
        return sum(file.left for file in self.files)


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
    reason = _reason(files, policy)
    if not reason:
        return Packing()
    by_partition: dict[Any, list[Candidate]] = {}
    for file in files:
        if file.left < policy.enough or file.is_due or _is_asked_for(file, policy):
            by_partition.setdefault(file.partition, []).append(file)
    bins = [
        part
        for partition in sorted(by_partition, key=repr)
        for bin in _bins(by_partition[partition], policy.target)
        if _pays(bin, policy)
        for part in _shared(bin, policy)
    ]
    return Packing(tuple(bins), reason) if bins else Packing()


def _reason(files: Sequence[Candidate], policy: CompactionPolicy) -> str:
    """Why anything should be done to a table, in words; nothing where it is well as it is."""
    reasons = []
    if any(_is_asked_for(file, policy) for file in files):
        reasons.append("rewrite_all is set")
    small = [file for file in files if file.bytes < policy.small]
    average = sum(file.left for file in files) / len(files) if files else 0
    masked = [file for file in files if file.is_masked]
    if len(small) > FEW:
        reasons.append(f"{len(small)} files are under {policy.small / (1 << 20):.3g} MB")
    if len(files) > FEW and average < policy.enough:
        reasons.append(f"files have {average / (1 << 20):.1f} MB on average")
    if unsafe := sum(file.lacks_nan_counts for file in files):
        some = "1 file has" if unsafe == 1 else f"{unsafe} files have"
        reasons.append(f"{some} bounds but no NaN counts, so other engines may lose NaN rows")
    if masked:
        reasons.append(f"{sum(file.masked for file in masked)} rows in {len(masked)} files are deleted already")
    return "; ".join(reasons)


def _is_asked_for(file: Candidate, policy: CompactionPolicy) -> bool:
    """Whether it is written anew whatever it is like."""
    return policy.rewrite_all and not file.is_rewritten


def _pays(bin: Bin, policy: CompactionPolicy) -> bool:
    if any(file.is_due or _is_asked_for(file, policy) for file in bin.files):
        return True
    several = len(bin.files) > 1
    return len(bin.files) >= TOGETHER or (several and bin.left >= policy.target * (1 - LARGE))


def _bins(files: Iterable[Candidate], target: int) -> Iterator[Bin]:
    """Files in the order they were written, small and large ones apart; each bin as full as it gets."""
    in_order = sorted(files, key=lambda file: (file.order, file.path))
    for is_large in (False, True):
        current: list[Candidate] = []
        size = 0.0
        for file in (file for file in in_order if (file.left >= target * LARGE) == is_large):
            if current and size + file.left > target:
                yield Bin(tuple(current))
                current, size = [], 0.0
            current.append(file)
            size += file.left
        if current:
            yield Bin(tuple(current))


def _shared(bin: Bin, policy: CompactionPolicy) -> Iterator[Bin]:
    """A large bin in parts of about the same size, for several tasks at once; each part stays large enough."""
    whole, least, parts = bin.left, policy.enough * PART, 1
    while parts < MOST_PARTS and whole / (parts * 2) >= least:
        parts *= 2
    current, size, after = list[Candidate](), 0.0, whole
    for file in bin.files:
        current.append(file)
        size, after = size + file.left, after - file.left
        if size + file.left / 2 >= whole / parts and size >= least and after >= least:
            yield Bin(tuple(current))
            current, size = [], 0.0
    if current:
        yield Bin(tuple(current))


def together(bins: Sequence[Bin], policy: CompactionPolicy) -> Iterator[tuple[Bin, ...]]:
    """Bins that are published in one commit: not too many at once, so that progress is kept."""
    current: list[Bin] = []
    size = 0
    for bin in bins:
        full = len(current) >= policy.max_concurrent_files or size >= policy.target * 16
        if current and full:
            yield tuple(current)
            current, size = [], 0
        current.append(bin)
        size += bin.bytes
    if current:
        yield tuple(current)
