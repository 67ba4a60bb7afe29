"""Which files of a table are worth rewriting together. Analysis and compaction both use `pack`.

A table is compacted if it has too many small files, if its files are small on average, if too many rows of a file are
deleted, or if a file's metrics are unsafe for other engines. Then all files that are not large enough are candidates.
Candidates of one partition are packed into bins of the target size. A bin pays off if it turns several files into one
or removes deleted rows.

A table that was just compacted needs nothing, even if the new files turn out a third smaller than expected: of the
small files of a partition, every bin but the last is at least three quarters full, and a full bin becomes a file that
is large enough. What is left is one new file, or a few old ones that did not pay off before either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.features.shared.file_sizes import CompactionPolicy

FEW = 10  # up to this many small files are no reason for a compaction
TOGETHER = 5  # files that make a bin worth rewriting, unless they fill a whole new file
MASKED_SHARE = 0.1  # of a file's rows: with more of them deleted, the file is rewritten even alone
MANY_DELETES = 10  # delete files that apply to one data file
LARGE = 0.25  # of the target: larger files do not share bins with small ones, which would stay half empty
PART = 1.5  # times "large enough": the least that one of several tasks gets of a bin
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
    order: int = 0  # keeps files in the order in which they were written
    is_rewritten: bool = False  # by an earlier compaction
    lacks_nan_counts: bool = False  # other engines may then skip rows with NaN

    @property
    def left(self) -> float:
        """Its bytes without the deleted rows."""
        return self.bytes * (1 - self.masked / max(self.rows, 1))

    @property
    def is_masked(self) -> bool:
        """Whether deletes alone make it worth rewriting."""
        return self.deletes >= MANY_DELETES or (self.rows > 0 and self.masked / self.rows > MASKED_SHARE)

    @property
    def is_due(self) -> bool:
        """Whether it is worth rewriting even alone, however large it is."""
        return self.is_masked or self.lacks_nan_counts


@dataclass(frozen=True)
class Bin:
    """Files of one partition that are rewritten into one file."""

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
    """The bins worth rewriting, and why the table is compacted."""

    bins: tuple[Bin, ...] = ()
    reason: str = ""

    @property
    def files(self) -> int:
        return sum(len(bin.files) for bin in self.bins)

    def files_after(self, policy: CompactionPolicy) -> int:
        """The expected number of files after the rewrite."""
        return sum(max(1, -(-bin.bytes // policy.target)) for bin in self.bins)


def pack(files: Sequence[Candidate], policy: CompactionPolicy) -> Packing:
    """The bins of files that are worth rewriting."""
    reason = _reason(files, policy)
    if not reason:
        return Packing()
    by_partition: dict[Any, list[Candidate]] = {}
    for file in files:
        if file.left < policy.limit_reached or file.is_due or _is_forced(file, policy):
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
    """Why a table should be compacted; empty if it should not."""
    reasons = []
    if any(_is_forced(file, policy) for file in files):
        reasons.append("rewrite_all is set")
    small = [file for file in files if file.bytes < policy.small]
    average = sum(file.left for file in files) / len(files) if files else 0
    masked = [file for file in files if file.is_masked]
    if len(small) > FEW:
        reasons.append(f"{len(small)} files are under {policy.small / (1 << 20):.3g} MB")
    if len(files) > FEW and average < policy.limit_reached:
        reasons.append(f"the average file size is {average / (1 << 20):.1f} MB")
    if unsafe := sum(file.lacks_nan_counts for file in files):
        some = "1 file has" if unsafe == 1 else f"{unsafe} files have"
        reasons.append(f"{some} bounds but no NaN counts, so other engines may skip rows with NaN")
    if masked:
        reasons.append(f"{sum(file.masked for file in masked)} rows in {len(masked)} files are deleted")
    return "; ".join(reasons)


def _is_forced(file: Candidate, policy: CompactionPolicy) -> bool:
    return policy.rewrite_all and not file.is_rewritten


def _pays(bin: Bin, policy: CompactionPolicy) -> bool:
    if any(file.is_due or _is_forced(file, policy) for file in bin.files):
        return True
    several = len(bin.files) > 1
    return len(bin.files) >= TOGETHER or (several and bin.left >= policy.target * (1 - LARGE))


def _bins(files: Iterable[Candidate], target: int) -> Iterator[Bin]:
    """Bins of files in the order they were written, small and large files separately; each bin as full as possible."""
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
    """A large bin, split into parts of about the same size for several tasks; each part stays large enough."""
    whole, least, parts = bin.left, policy.limit_reached * PART, 1
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
    """The bins of each commit: not too many, so that an interrupted compaction keeps its progress."""
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
