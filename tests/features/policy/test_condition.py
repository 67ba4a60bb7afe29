"""What is wrong with a table, how much it weighs, and what mends it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.features.policy.condition import Symptoms, complaints, score

WELL = Symptoms(
    files=100,
    small_files=0,
    delete_files=0,
    files_saved=0,
    rows=1000,
    rows_masked=0,
    rows_dropped=0,
    versions=10,
    versions_expirable=0,
    manifests=5,
    manifests_saved=0,
    metadata_bytes=10_000,
)


def remedies(found: Symptoms) -> list[str]:
    return [complaint.remedy for complaint in complaints(found)]


def test_a_table_that_nothing_can_be_done_about_has_a_hundred() -> None:
    kept = replace(WELL, small_files=100, delete_files=9, rows_masked=50, metadata_bytes=1 << 30)
    assert score(complaints(WELL)) == score(complaints(kept)) == 100
    assert complaints(kept) == []


def test_each_symptom_has_its_remedy() -> None:
    assert remedies(replace(WELL, files_saved=90)) == ["compaction compact"]
    assert remedies(replace(WELL, rows_dropped=200)) == ["compaction compact"]
    assert remedies(replace(WELL, versions_expirable=5)) == ["retention expire"]
    assert remedies(replace(WELL, manifests_saved=4)) == ["compaction manifests"]
    assert remedies(replace(WELL, versions_expirable=1, metadata_bytes=1 << 30)) == ["retention expire"] * 2


def test_the_worst_comes_first() -> None:
    found = complaints(replace(WELL, files_saved=20, rows_dropped=300, versions_expirable=1, versions=30))
    assert [complaint.reason for complaint in found] == [
        "300 of 1,000 rows are deleted but still stored",
        "20 of 100 files too many",
        "1 of 30 versions too old",
    ]


def test_however_little_there_is_to_do_is_told() -> None:
    found = complaints(replace(WELL, versions=5000, versions_expirable=1))
    assert [complaint.reason for complaint in found] == ["1 of 5000 versions too old"] and score(found) == 99


def test_the_worst_of_all_is_no_less_than_nothing() -> None:
    worst = Symptoms(100, 100, 90, 100, 1000, 1000, 1000, 10, 10, 50, 50, 1 << 40)
    assert score(complaints(worst)) == 0


counts = st.integers(0, 1000)


@given(st.builds(Symptoms, *[counts] * 11))
def test_a_score_is_below_a_hundred_where_anything_is_told(found: Symptoms) -> None:
    told = complaints(found)
    assert 0 <= score(told) <= 100 and (score(told) == 100) == (not told)
    assert [c.points for c in told] == sorted((c.points for c in told), reverse=True)
