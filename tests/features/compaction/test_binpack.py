"""Which files are written anew together: nothing twice, nothing across partitions, and nothing once it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.features.compaction.binpack import (
    MOST_PARTS,
    PART,
    Bin,
    Candidate,
    Packing,
    _shared,
    pack,
    together,
)
from lakewarden.features.shared.file_sizes import CompactionPolicy
from tests.examples import examples
from tests.steps import steps

MB = 1 << 20
DEFAULT = CompactionPolicy()


def small_files(count: int, megabytes: float = 1, partition: str = "", **others: object) -> list[Candidate]:
    size = int(megabytes * MB)
    made = [Candidate(f"{partition}/{i:04d}", size, 1000, partition, order=i) for i in range(count)]
    return [replace(file, **others) for file in made]  # type: ignore[arg-type]


policies = st.builds(
    CompactionPolicy,
    target_file_size_mb=st.sampled_from([1, 16, 64, 512]),
    min_file_size_mb=st.sampled_from([1, 10, 100]),
    max_concurrent_files=st.integers(1, 5),
    rewrite_all=st.booleans(),
)


@st.composite
def tables(draw: st.DrawFn, target: int) -> list[Candidate]:
    sizes = st.one_of(st.floats(0.0001, 0.02), st.floats(0.05, 0.3), st.floats(0.3, 1.6))
    files = []
    for number in range(draw(st.integers(0, 60))):
        rows = draw(st.integers(0, 1000))
        files.append(
            Candidate(
                path=f"f{number:03d}",
                bytes=max(int(draw(sizes) * target), 1),
                rows=rows,
                partition=draw(st.sampled_from(["a", "b"])),
                masked=int(rows * draw(st.sampled_from([0, 0, 0, 0.05, 0.5, 1]))),
                deletes=draw(st.sampled_from([0, 0, 1, 12])),
                order=draw(st.integers(0, 9)),
                is_rewritten=draw(st.booleans()),
                lacks_nan_counts=draw(st.sampled_from([False, False, False, True])),
            )
        )
    return files


def rewritten(files: list[Candidate], packing: Packing, shrinking: float) -> list[Candidate]:
    """What a table is like once the bins have been written anew."""
    gone = {file.path for bin in packing.bins for file in bin.files}
    made = [
        Candidate(
            path=f"/lw-op-{number}-{min(file.path for file in bin.files)}",
            bytes=int(bin.left * shrinking),
            rows=sum(file.rows - file.masked for file in bin.files),
            partition=bin.files[0].partition,
            order=max(file.order for file in bin.files),
            is_rewritten=True,
        )
        for number, bin in enumerate(packing.bins)
        if sum(file.rows - file.masked for file in bin.files)
    ]
    return [file for file in files if file.path not in gone] + made


@examples(400)
@given(data=st.data(), policy=policies, shrinking=st.floats(0.7, 1.0))
def test_no_file_twice_one_partition_a_bin_and_a_second_plan_is_empty(
    data: st.DataObject, policy: CompactionPolicy, shrinking: float
) -> None:
    files = data.draw(tables(policy.target))

    packing = pack(files, policy)

    counts = Counter(file.path for bin in packing.bins for file in bin.files)
    assert set(counts.values()) <= {1}
    assert set(counts) <= {file.path for file in files}
    for bin in packing.bins:
        assert len({file.partition for file in bin.files}) == 1
        assert bin.left <= policy.target or len(bin.files) == 1
    assert bool(packing.bins) == bool(packing.reason)
    parts = list(together(packing.bins, policy))
    assert [bin for part in parts for bin in part] == list(packing.bins)
    assert all(0 < len(part) <= policy.max_concurrent_files for part in parts)
    assert pack(rewritten(files, packing, shrinking), policy) == Packing()


@examples(200)
@given(data=st.data(), policy=policies)
def test_the_order_in_which_files_are_told_changes_nothing(data: st.DataObject, policy: CompactionPolicy) -> None:
    files = data.draw(tables(policy.target))
    shuffled = data.draw(st.permutations(files))
    assert pack(shuffled, policy) == pack(files, policy)


@pytest.mark.parametrize(
    "files",
    [
        [],
        small_files(1, 3),
        small_files(10),
        [file for day in range(1000) for file in small_files(1, 0.5, f"day={day}")],
        [file for day in range(100) for file in small_files(4, 0.5, f"day={day}")],
        small_files(50, 400),
    ],
    ids=["none", "one of 3 MB", "ten", "1,000 partitions of one", "100 partitions of four", "large ones"],
)
def test_needs_nothing(files: list[Candidate]) -> None:
    assert pack(files, DEFAULT) == Packing()


def test_many_small_files_become_one() -> None:
    packing = pack(small_files(11), DEFAULT)
    assert [len(bin.files) for bin in packing.bins] == [11]
    assert packing.reason == "11 files are under 10 MB; the average file size is 1.0 MB"
    assert packing.files_after(DEFAULT) == 1


def test_files_that_are_large_enough_stay_even_beside_small_ones() -> None:
    packing = pack([*small_files(11), *small_files(11, 70, "large")], DEFAULT)
    assert {file.partition for bin in packing.bins for file in bin.files} == {""}


def test_a_large_bin_is_shared_by_several_tasks() -> None:
    packing = pack(small_files(50, 10), DEFAULT)
    assert [len(bin.files) for bin in packing.bins] == [12, 12, 12, 14]
    assert min(bin.bytes for bin in packing.bins) * 0.7 >= DEFAULT.limit_reached


def test_one_file_with_many_deleted_rows_is_written_anew_by_itself() -> None:
    (bin,) = pack(small_files(1, 500, rows=1000, masked=101), DEFAULT).bins
    assert len(bin.files) == 1
    assert pack(small_files(1, 500, rows=1000, masked=100), DEFAULT) == Packing()
    assert pack(small_files(1, 500, rows=1000, masked=1, deletes=10), DEFAULT).bins
    assert pack(small_files(1, 500, rows=0), DEFAULT) == Packing()


def test_rewrite_all_takes_what_no_compaction_has_written() -> None:
    every = CompactionPolicy(rewrite_all=True)
    assert len(pack(small_files(1, 600), every).bins) == 1
    assert pack(small_files(1, 600, is_rewritten=True), every) == Packing()
    both = [*small_files(1, 600), *small_files(1, 600, "masked", is_rewritten=True, rows=1000, masked=900)]
    assert {file.partition for bin in pack(both, every).bins for file in bin.files} == {"", "masked"}


def test_commits_are_not_too_large_either() -> None:
    bins = pack([file for day in range(40) for file in small_files(8, 60, f"{day}")], DEFAULT).bins
    assert [len(part) for part in together(bins, CompactionPolicy(max_concurrent_files=3))][:2] == [3, 3]
    assert sum(bin.bytes for bin in next(together(bins, DEFAULT))) <= DEFAULT.target * 17


def shared_slowly(bin: Bin, policy: CompactionPolicy) -> Iterator[Bin]:
    """How bins are divided among tasks, adding up the whole bin again for every file."""
    least, parts = policy.limit_reached * PART, 1
    while parts < MOST_PARTS and bin.left / (parts * 2) >= least:
        parts *= 2
    current, size, after = list[Candidate](), 0.0, bin.left
    for file in bin.files:
        current.append(file)
        size, after = size + file.left, after - file.left
        if size + file.left / 2 >= bin.left / parts and size >= least and after >= least:
            yield Bin(tuple(current))
            current, size = [], 0.0
    if current:
        yield Bin(tuple(current))


def together_slowly(bins: Sequence[Bin], policy: CompactionPolicy) -> Iterator[tuple[Bin, ...]]:
    """Which bins are published together, adding up all of them again for every bin."""
    current: list[Bin] = []
    for bin in bins:
        full = len(current) >= policy.max_concurrent_files or sum(b.bytes for b in current) >= policy.target * 16
        if current and full:
            yield tuple(current)
            current = []
        current.append(bin)
    if current:
        yield tuple(current)


@examples(200)
@given(data=st.data(), policy=policies)
def test_sums_that_are_kept_divide_files_as_sums_made_again_do(data: st.DataObject, policy: CompactionPolicy) -> None:
    whole = Bin(tuple(data.draw(tables(policy.target))))
    parts = list(_shared(whole, policy))
    assert parts == list(shared_slowly(whole, policy))
    for several in (replace(policy, max_concurrent_files=100), policy):
        assert list(together(parts * 20, several)) == list(together_slowly(parts * 20, several))


@pytest.mark.parametrize("partitions", [1, 100])
def test_four_times_the_files_take_four_times_the_steps(partitions: int) -> None:
    def planned(files: int) -> int:
        each = [small_files(files // partitions, 0.01, f"{n}") for n in range(partitions)]
        every = [file for some in each for file in some]
        return steps(lambda: list(together(pack(every, DEFAULT).bins, DEFAULT)))

    assert planned(4000) < 4.4 * planned(1000)


def test_a_file_without_nan_counts_is_rewritten_even_by_itself() -> None:
    (file,) = small_files(1, megabytes=600)
    assert not pack([file], DEFAULT).bins
    packing = pack([replace(file, lacks_nan_counts=True)], DEFAULT)
    assert [bin.files for bin in packing.bins] == [(replace(file, lacks_nan_counts=True),)]
    assert packing.reason == "1 file has bounds but no NaN counts, so other engines may skip rows with NaN"
